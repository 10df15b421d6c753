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
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	deadRounds  = 10
	deadMembers = 10
	deadLimit   = 20 * time.Second // a session that has members then did not end
)

// A deadCase is a session whose root exits when its daemon dies.
type deadCase struct {
	name, says string
	begin      func(context.Context, *daemon) (*worker, error)
	restarted  bool // the daemon, as by the unit
}

var deadCases = []deadCase{
	{"run", "`lineage run`", beginRun, true},
	{"rule", "an agent rule", beginRule, true},
	{"adopted", "`lineage adopt`", beginAdopted, true},
	{"ephemeral", "`lineage run` that starts a daemon itself", beginRun, false},
}

// dead kills the daemon and, at the same moment, the root of a session. The time is from then to the
// exit of its last member.
func dead(ctx context.Context, r *report) error {
	pause, err := restartSec("packaging/systemd/lineage.service.in")
	if err != nil {
		return err
	}
	for level := 4; level >= 2; level-- {
		for _, c := range deadCases {
			for range deadRounds {
				took, err := c.measure(ctx, level, pause)
				if err != nil {
					return fmt.Errorf("level %d, %s: %w", level, c.name, err)
				}
				r.took(fmt.Sprintf("Dead/level=%d/session=%s", level, c.name), took)
			}
		}
	}
	return nil
}

// restartSec is how long systemd waits before it starts the daemon of a unit again.
func restartSec(unit string) (time.Duration, error) {
	text, err := os.ReadFile(unit)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "RestartSec="); found {
			return time.ParseDuration(value)
		}
	}
	return 0, fmt.Errorf("%s: no RestartSec=", unit)
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

func (c *deadCase) measure(ctx context.Context, level int, pause time.Duration) (took time.Duration, err error) {
	dir, err := os.MkdirTemp("", "lngtest-bench-")
	if err != nil {
		return 0, err
	}
	d := &daemon{dir: dir, socket: filepath.Join(dir, "l.sock")}
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, deadPolicy, d.copied()), 0o600); err != nil {
		return 0, errors.Join(err, os.RemoveAll(dir))
	}
	flags := []string{"--level", strconv.Itoa(level), "--policy", policy}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.run(ctx, lineageBin, flags...); err != nil {
		return 0, err
	}
	w, err := c.begin(ctx, d)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	if err := w.grow(deadMembers - 1); err != nil {
		return 0, err
	}
	m, err := d.members(ctx)
	defer m.close()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := errors.Join(d.kill(), unix.PidfdSendSignal(m.root, unix.SIGKILL, nil, 0)); err != nil {
		return 0, err
	}
	gone := make(chan error, 1)
	go func() {
		err := m.gone(deadLimit)
		took = time.Since(began)
		gone <- err
	}()
	if c.restarted {
		time.Sleep(pause)
		if err := d.run(ctx, lineageBin, flags...); err != nil {
			return 0, errors.Join(err, <-gone)
		}
	}
	if err := <-gone; err != nil {
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

func beginAdopted(ctx context.Context, d *daemon) (*worker, error) {
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return nil, err
	}
	if _, err := d.adopt(ctx, w); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

func beginRule(ctx context.Context, d *daemon) (*worker, error) {
	text, err := os.ReadFile(program("crowd"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.copied(), text, 0o755); err != nil {
		return nil, err
	}
	return begin(exec.CommandContext(ctx, d.copied()), -1)
}

func beginRun(ctx context.Context, d *daemon) (*worker, error) {
	return begin(exec.CommandContext(ctx, lineageBin, "run", "--quiet", "--socket", d.socket, "--grace", "0s", "--", program("crowd")), -1)
}

// members are descriptors of all members of a daemon's only session.
type members struct {
	root int
	all  []unix.PollFd
}

// members waits until the daemon knows all of them.
func (d *daemon) members(ctx context.Context) (m members, err error) {
	for end := time.Now().Add(deadLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		l, err := d.Sessions(ctx, "", "")
		if err != nil {
			return m, err
		}
		if len(l.Items) != 1 || l.Items[0].Live != deadMembers {
			continue
		}
		t, err := d.Tree(ctx, l.Items[0].ID, "")
		if err != nil {
			return m, err
		}
		for _, n := range t.Nodes {
			fd, err := unix.PidfdOpen(n.PID, unix.PIDFD_NONBLOCK)
			if err != nil {
				return m, err
			}
			m.all = append(m.all, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			if n.Ref == l.Items[0].Root.Ref {
				m.root = fd
			}
		}
		return m, nil
	}
	return m, errors.New("no session of all members")
}

// gone waits until all have exited.
func (m *members) gone(limit time.Duration) error {
	end := time.Now().Add(limit)
	for _, fd := range m.all {
		one := []unix.PollFd{fd}
		for {
			n, err := unix.Poll(one, int(max(time.Until(end), 0).Milliseconds()))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil && n == 0 {
				err = fmt.Errorf("alive after %v", limit)
			}
			if err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// close ends what is left.
func (m *members) close() {
	for _, fd := range m.all {
		_ = unix.PidfdSendSignal(int(fd.Fd), unix.SIGKILL, nil, 0)
		_ = unix.Close(int(fd.Fd))
	}
}

func (s *samples) deadTable() string {
	rows := make([][2]string, len(deadCases))
	for i, c := range deadCases {
		rows[i] = [2]string{"session=" + c.name, c.says}
	}
	return s.levelTable("Dead", "session", rows)
}
