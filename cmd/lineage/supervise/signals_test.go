//go:build linux

package supervise

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// member returns the PID at the end of "WHO ready PID".
func (p *process) member(who string) int {
	p.t.Helper()
	pid, err := strconv.Atoi(p.stdout.expect(p.t, who+" ready"))
	require.NoError(p.t, err)
	return pid
}

// A signal to run goes to the root and to no other process of its group.
func TestForward(t *testing.T) {
	cmd := runCmd(t, script{}, self(t), "__lngtest", "family")
	p, in := piped(t, cmd)
	p.member("child")
	root := p.member("root")
	if pgrp, err := unix.Getpgid(root); err != nil || pgrp != root {
		t.Errorf("the group of root %d is %d (%v), want its own", root, pgrp, err)
	}
	for _, s := range forwarded {
		sig := s.(unix.Signal)
		p.signal(sig)
		p.stdout.expect(t, "root got "+unix.SignalName(sig))
	}
	in.Close()
	got := p.wait()
	if got.code != 0 || strings.Contains(got.stdout, "child got") {
		t.Errorf("got %+v", got)
	}
}

// A command that joins the group of run gets its signals all the same.
func TestForwardToACommandThatMoved(t *testing.T) {
	cmd := runCmd(t, script{}, self(t), "__lngtest", "join")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	p, in := piped(t, cmd)
	root := p.member("root")
	p.signal(unix.SIGUSR1)
	p.stdout.expect(t, "root got SIGUSR1")
	p.signal(unix.SIGTSTP) // there is no shell: the kernel stops neither
	p.signal(unix.SIGTERM)
	p.stdout.expect(t, "root got SIGTERM")
	if got := state(root); got == 'T' {
		t.Errorf("root is %c", got)
	}
	in.Close()
	if got := p.wait(); got.code != 0 {
		t.Errorf("got %+v", got)
	}
}

// A command that does not exit on SIGTERM is ended with its session by a second
// SIGTERM. timeout(1), which signals its child and then the group, counts as one.
func TestRepeatedSIGTERM(t *testing.T) {
	var s script
	var p *process
	var in io.Closer
	for took := termPause; took >= termPause; { // so late, the second one would count
		s = script{Log: filepath.Join(t.TempDir(), "log")}
		cmd := runCmd(t, s, self(t), "__lngtest", "watch", "root")
		p, in = piped(t, cmd)
		p.member("root")
		began := time.Now()
		for range 2 {
			p.signal(unix.SIGTERM)
			p.stdout.expect(t, "root got SIGTERM")
		}
		took = time.Since(began)
	}
	for _, want := range []string{"end k3x9q2 now=false\n", "end k3x9q2 now=true\n"} {
		if b, _ := os.ReadFile(s.Log); strings.Contains(string(b), want) {
			t.Errorf("too soon:\n%s", b)
		}
		time.Sleep(termPause)
		p.signal(unix.SIGTERM)
		require.Eventually(t, want, func() bool {
			b, _ := os.ReadFile(s.Log)
			return strings.HasSuffix(string(b), want)
		})
	}
	in.Close()
	if got := p.wait(); got.code != 0 || strings.Count(got.stdout, "SIGTERM") != 2 {
		t.Errorf("got %+v", got)
	}
}

// If no shell could continue us, we do not stop; the process that stopped the command
// continues it.
func TestStopUnwatched(t *testing.T) {
	cmd := runCmd(t, script{}, self(t), "__lngtest", "watch", "root")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	p, in := piped(t, cmd)
	root := p.member("root")
	stopped := func() bool { return allStopped(root) }
	kill := func(sig unix.Signal) {
		t.Helper()
		require.NoError(t, unix.Kill(root, sig))
	}
	kill(unix.SIGSTOP)
	require.Eventually(t, "root stops", stopped)
	kill(unix.SIGCONT)
	p.stdout.expect(t, "root got SIGCONT")
	// The kernel lets a TSTP stop root, which is in our session; run, whose
	// group is orphaned, must continue it.
	kill(unix.SIGTSTP)
	p.stdout.expect(t, "root got SIGCONT")
	// Continued by a SIGCONT to run.
	kill(unix.SIGSTOP)
	require.Eventually(t, "root stops", stopped)
	p.signal(unix.SIGUSR1) // order: run has seen the stop when it forwards this
	p.signal(unix.SIGCONT)
	p.stdout.expect(t, "root got SIGUSR1")
	in.Close()
	if got := p.wait(); got.code != 0 {
		t.Errorf("got %+v", got)
	}
}

// allStopped: wait(2) reports a stop when the last thread has stopped.
func allStopped(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, name := range tasks {
		b, _ := os.ReadFile(name)
		if !strings.Contains(string(b), "State:\tT") {
			return false
		}
	}
	return err == nil && len(tasks) > 0
}

// A signal that was ignored when run started is not forwarded: nohup also protects a
// command that handles HUP.
func TestIgnoredIsNotForwarded(t *testing.T) {
	cmd := shell(t, "exec nohup $LNG $LNG __lngtest watch root")
	p, in := piped(t, cmd)
	p.member("root")
	p.signal(unix.SIGHUP)
	p.signal(unix.SIGUSR1) // comes after it
	p.stdout.expect(t, "root got SIGUSR1")
	in.Close()
	if got := p.wait(); got.code != 0 || strings.Contains(got.stdout, "SIGHUP") {
		t.Errorf("got %+v", got)
	}
}
