//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

const (
	deadMembers = 10
	deadLimit   = 20 * time.Second // a session that has members then did not end
	// restartAfter is how long systemd waits before it starts the daemon again: packaging/systemd.
	restartAfter = 100 * time.Millisecond
)

// The sessions whose root exits when their daemon dies. The unit starts it again, or for the last lineage run.
const (
	byRun     = "lineage_run"
	byRule    = "an_agent_rule"
	byAdopt   = "lineage_adopt"
	ephemeral = "lineage_run_that_starts_a_daemon_itself"
)

// dead kills the daemon and, at the same moment, the root of a session. The time is from then to the
// exit of its last member.
func dead(ctx context.Context, r *report) error {
	for level := 4; level >= 2; level-- {
		for _, session := range []string{byRun, byRule, byAdopt, ephemeral} {
			for range 10 {
				took, err := deadDaemon(ctx, level, session)
				if err != nil {
					return fmt.Errorf("level %d, %s: %w", level, session, err)
				}
				r.took(fmt.Sprintf("Dead/session=%s/level=level_%d", session, level), took)
			}
		}
	}
	return nil
}

// deadPolicy lets a rule open a session for a copy of the program that only this round has.
const deadPolicy = `version: 1
mode: enforce
agents:
  - name: lngtest-crowd
    enabled: true
    match: {comm: lngtest-crowd, exe: %s}
    grace: 0s
`

func deadDaemon(ctx context.Context, level int, session string) (took time.Duration, failed error) {
	d, err := newDaemon(lineageBin, "--level", strconv.Itoa(level))
	if err != nil {
		return 0, err
	}
	defer func() { failed = errors.Join(failed, d.close()) }()
	policy := filepath.Join(d.dir, "policy.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, deadPolicy, d.copied()), 0o600); err != nil {
		return 0, err
	}
	d.flags = append(d.flags, "--policy", policy)
	if err := d.run(ctx); err != nil {
		return 0, err
	}
	w, err := d.crowd(ctx, session)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	if err := w.grow(deadMembers - 1); err != nil {
		return 0, err
	}
	root, members, err := d.members(ctx)
	defer func() {
		for _, fd := range members {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			_ = unix.Close(fd)
		}
	}()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := errors.Join(d.kill(), unix.PidfdSendSignal(root, unix.SIGKILL, nil, 0)); err != nil {
		return 0, err
	}
	gone := make(chan error, 1)
	go func() {
		err := exited(members...)
		took = time.Since(began)
		gone <- err
	}()
	if session != ephemeral {
		time.Sleep(restartAfter)
		err = d.run(ctx)
	}
	if err := errors.Join(err, <-gone); err != nil {
		return 0, err
	}
	return took, w.gone() // run starts a daemon if none answers, which close has to find
}

// kill kills the daemon.
func (d *daemon) kill() error {
	err := errors.Join(d.cmd.Process.Kill(), d.Client.Close())
	d.Client = nil
	_ = d.cmd.Wait() // it was killed
	return err
}

// copied is the path of a copy of the program crowd, for a rule to match.
func (d *daemon) copied() string { return filepath.Join(d.dir, "lngtest-crowd") }

// crowd starts the program so that it is a session.
func (d *daemon) crowd(ctx context.Context, session string) (*worker, error) {
	cmd := exec.CommandContext(ctx, program("crowd"))
	switch session {
	case byRule:
		if err := exec.Command("cp", program("crowd"), d.copied()).Run(); err != nil {
			return nil, err
		}
		cmd = exec.CommandContext(ctx, d.copied())
	case byRun, ephemeral:
		cmd = exec.CommandContext(ctx, lineageBin, "run", "--quiet", "--socket", d.socket, "--grace", "0s", "--", program("crowd"))
	}
	w, err := begin(cmd, -1)
	if err == nil && session == byAdopt {
		if _, err = d.adopt(ctx, w); err != nil {
			w.stop()
		}
	}
	return w, err
}

// members are descriptors of the root and of all members of a daemon's only session, once it knows them.
func (d *daemon) members(ctx context.Context) (root int, all []int, err error) {
	t := &api.Tree{}
	var s api.Session
	if err := until(ctx, "session of all members", func() error {
		l, err := d.Sessions(ctx, "", "")
		if err == nil && len(l.Items) == 1 {
			s = l.Items[0]
			t, err = d.Tree(ctx, s.ID, "")
		}
		if err == nil && len(t.Nodes) != deadMembers {
			err = fmt.Errorf("%d sessions, %d members", len(l.Items), len(t.Nodes))
		}
		return err
	}); err != nil {
		return 0, nil, err
	}
	for _, n := range t.Nodes {
		fd, err := unix.PidfdOpen(n.PID, unix.PIDFD_NONBLOCK)
		if err != nil {
			return 0, all, err
		}
		all = append(all, fd)
		if n.Ref == s.Root.Ref {
			root = fd
		}
	}
	return root, all, nil
}

// exited waits until the processes of these descriptors have exited.
func exited(pidfds ...int) error {
	end := time.Now().Add(deadLimit)
	for _, fd := range pidfds {
		for n := 0; n < 1; { // a signal interrupts it
			left := time.Until(end)
			if left <= 0 {
				return fmt.Errorf("alive after %v", deadLimit)
			}
			n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		}
	}
	return nil
}
