//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// haltStand is an instance with an agent that only its name makes one, and one that its argument makes one.
type haltStand struct {
	*stage.Instance
	t             *testing.T
	agent, argued string // programs that sleep
}

func newHaltStand(t *testing.T) *haltStand {
	t.Helper()
	s := &haltStand{Instance: stage.New(t), t: t}
	s.agent, s.argued = filepath.Join(s.Dir, "lngtest-halt"), filepath.Join(s.Dir, "lngtest-argued")
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sleep, s.agent), os.Symlink(sleep, s.argued))
	return s
}

// serve starts the daemon. In mode observe a halt ends agents, too.
func (s *haltStand) serve() *stage.Process {
	return s.Daemon("--policy", s.Policy(`mode: observe
agents:
  - {name: exact, enabled: true, match: {comm: lngtest-halt}}
  - {name: argued, enabled: true, match: {comm: lngtest-argued, argv: '^61$'}}
`))
}

// dies starts an agent that must not start.
func (s *haltStand) dies(when, program string) {
	s.t.Helper()
	p := stage.Start(s.t, exec.Command(program, "61")).Wait()
	if status := p.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		s.t.Errorf("%s: an agent ended with %v", when, p.ProcessState)
	}
}

// runs starts an agent that must live, and waits until its rule has a session for it.
func (s *haltStand) runs(program string) *stage.Process {
	s.t.Helper()
	p := stage.Start(s.t, exec.Command(program, "61"))
	s.Until("session of the agent", func() bool {
		return p.Exited() || slices.ContainsFunc(s.live(), func(x api.Session) bool { return x.Rule != "" && x.Root.PID == p.Process.Pid })
	})
	if p.Exited() {
		s.t.Fatal(p)
	}
	return p
}

func (s *haltStand) live() []api.Session { return stage.Query[api.Sessions](s.Instance, "ls").Items }

// TestHalt: a drain ends nobody and lets nothing start; a halt ends all sessions, and agents die at their exec, with the
// daemon killed and after its restart; after it they live.
func TestHalt(t *testing.T) {
	s := newHaltStand(t)
	d := s.serve()
	bystander := stage.Start(t, exec.Command("sleep", "62"))
	run := s.Start([]string{"run", "--name", "work", "--", "sh", "-c", "sleep 63 & wait"}, nil)
	s.Until("session", func() bool { return len(s.live()) == 1 })
	agent, argued := s.runs(s.agent), s.runs(s.argued)
	spared := []*stage.Process{bystander, stage.Start(t, exec.Command(s.argued, "64"))}
	before := s.live()

	s.Must("halt", "--dry-run", "--reason", "x")

	s.Must("halt", "--drain", "--reason", "maintenance")
	s.dies("drained", s.agent)
	s.dies("drained", s.argued)
	if live := s.live(); len(live) != len(before) || agent.Exited() || argued.Exited() || run.Exited() {
		t.Errorf("a drain has ended something: %+v", live)
	}

	s.Must("halt", "--reason", "case 7", "--yes")
	for _, p := range []*stage.Process{agent, argued, run} {
		p.Wait()
	}
	require.Contains(t, run.Err.String(), "the host was halted: case 7")
	for _, x := range before {
		r := s.Receipt(x.ID)
		if r.Verdict != api.VerdictClean || r.EndReason != "halt" || r.EndedBy == nil || r.EndedBy.Reason != "case 7" {
			t.Errorf("%+v", r)
		}
	}
	s.dies("halted", s.agent)
	s.dies("halted", s.argued)
	spared = append(spared, stage.Start(t, exec.Command(s.argued, "65")))
	for _, args := range [][]string{{"status"}, {"ls"}, {"doctor"}} {
		if p := s.Lineage(args...); !strings.Contains(p.Out.String()+p.Err.String(), "case 7") {
			t.Error(p)
		}
	}

	require.NoError(t, d.Process.Kill())
	d.Wait()
	s.dies("without a daemon", s.agent)
	require.Contains(t, s.Lineage("doctor").Out.String(), "case 7")
	require.Contains(t, s.Lineage("status").Err.String(), "case 7")
	if p := s.Lineage("halt", "--drain", "--reason", "x"); p.Code() != api.ExitUnreachable {
		t.Error(p)
	}
	late := stage.Start(t, exec.Command(s.argued, "61"))
	s.serve()
	late.Wait() // recognised by the next daemon
	s.dies("after a restart", s.agent)
	if h := s.Status().Halt; h == nil || h.Mode != api.ModeHalt || h.Reason != "case 7" {
		t.Errorf("%+v", h)
	}

	s.Must("halt", "--off")
	again := s.runs(s.agent)
	s.Must("run", "--", "true")
	s.Must("end", "--all", "--yes", "--now")
	again.Wait()
	for _, p := range spared {
		if p.Exited() {
			t.Errorf("ended: %v", p)
		}
		p.Stop()
	}
}
