//go:build linux

package tracer_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// victim is a workload in a session of its own, with the events about it.
type victim struct {
	*workload
	t      *testing.T
	tr     *tracer.Tracer
	id     tracer.SessionID
	events iter.Seq[tracer.Event]
}

func newVictim(t *testing.T, tr *tracer.Tracer, events iter.Seq[tracer.Event], script string) *victim {
	t.Helper()
	v := &victim{workload: start(t, script), t: t, tr: tr, events: events}
	v.id = create(t, v.tr, v.workload, tracer.SessionSpec{KeepOnRootExit: true})
	v.goOn()
	return v
}

func (v *victim) next(what tracer.EventType) tracer.Event {
	v.t.Helper()
	for ev := range v.events {
		if ev.Type == what && ev.Process.PID == v.pid() {
			return ev
		}
	}
	v.t.Fatalf("no event of type %d", what)
	return tracer.Event{}
}

func (v *victim) signal(sig unix.Signal) {
	v.t.Helper()
	require.NoError(v.t, unix.Kill(int(v.pid()), sig))
}

func fromUs(s *tracer.Signal, sig unix.Signal) bool {
	return s != nil && s.Number == uint8(sig) && s.Sender == tracer.ByProcess && s.By.PID == uint32(os.Getpid()) &&
		s.By.Start != 0 && s.UID == uint32(os.Geteuid()) && s.Session == 0 && s.Comm != "" && s.Time != 0
}

// TestKiller lets members die in each way that a signal has, and asks who did it.
func TestKiller(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	events := collect(t, tr)
	fault, err := filepath.Abs("../bin/testdata/lngtest-fault")
	require.NoError(t, err)
	itself := func(v *victim, s *tracer.Signal) bool {
		return s != nil && s.Sender == tracer.ByProcess && s.By.PID == v.pid() && s.Session == v.id
	}
	for _, c := range []struct {
		name, script string
		signals      []unix.Signal
		want         func(v *victim, s *tracer.Signal) bool
	}{
		{"killed", "echo ready; read x", []unix.Signal{unix.SIGKILL}, func(_ *victim, s *tracer.Signal) bool { return fromUs(s, unix.SIGKILL) && !s.Handled }},
		{"terminated", "echo ready; read x", []unix.Signal{unix.SIGTERM}, func(_ *victim, s *tracer.Signal) bool { return fromUs(s, unix.SIGTERM) }},
		{"stopped, then terminated", "echo ready; read x", []unix.Signal{unix.SIGSTOP, unix.SIGTERM, unix.SIGCONT},
			func(_ *victim, s *tracer.Signal) bool { return fromUs(s, unix.SIGTERM) }},
		{"handled", "trap 'exit 3' TERM; echo ready; read x; sleep 600", []unix.Signal{unix.SIGTERM},
			func(_ *victim, s *tracer.Signal) bool { return fromUs(s, unix.SIGTERM) && s.Handled && !s.Raised }},
		{"handled and raised", "trap 'trap - TERM; kill -TERM $$' TERM; echo ready; read x; sleep 600", []unix.Signal{unix.SIGTERM},
			func(_ *victim, s *tracer.Signal) bool { return fromUs(s, unix.SIGTERM) && s.Handled && s.Raised }},
		{"handled and sent again", "trap 'trap : TERM; (kill -TERM $$); exit 3' TERM; echo ready; read x; sleep 600", []unix.Signal{unix.SIGTERM},
			func(_ *victim, s *tracer.Signal) bool { return fromUs(s, unix.SIGTERM) && s.Handled && !s.Raised }},
		{"itself", "echo ready; kill -USR1 $$", nil, func(v *victim, s *tracer.Signal) bool { return itself(v, s) && s.Number == uint8(unix.SIGUSR1) }},
		{"ignored", "trap '' TERM; echo ready; read x; exit 0", []unix.Signal{unix.SIGTERM}, func(v *victim, s *tracer.Signal) bool { return s == nil }},
		{"its own fault", "exec " + fault + " segv", nil, func(_ *victim, s *tracer.Signal) bool {
			return s != nil && s.Sender == tracer.ByFault && s.By.PID == 0
		}},
		{"a timer of the kernel", "exec " + fault + " alarm", nil, func(_ *victim, s *tracer.Signal) bool {
			return s != nil && s.Sender == tracer.ByKernel && s.By.PID == 0 && s.Comm == ""
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVictim(t, tr, events, c.script)
			if c.signals != nil {
				v.until("ready")
			}
			for _, sig := range c.signals {
				if sig == unix.SIGTERM && c.name == "handled" {
					v.reads()
				}
				v.signal(sig)
			}
			if c.name == "ignored" || strings.HasPrefix(c.name, "handled") {
				_, _ = v.in.Write([]byte("x\n")) // a trap runs when the read is over; if the signal ended that, it has exited by now
			}
			ev := v.next(tracer.EventExit)
			if !c.want(v, ev.Signal) {
				t.Fatalf("status %#x, signal %+v", ev.ExitStatus, ev.Signal)
			}
		})
	}
}

// TestPassedOn signals an owner that passes it on: the sender is who sent it to the owner.
func TestPassedOn(t *testing.T) {
	onEachSide(t, func(t *testing.T, tr *tracer.Tracer) {
		v := &victim{workload: start(t, "read x"), t: t, tr: tr, events: collect(t, tr)}
		owner := start(t, fmt.Sprintf("trap 'kill -HUP %d; read y' HUP; echo ready; read x; read y", v.pid()))
		v.id = create(t, tr, v.workload, tracer.SessionSpec{Owner: tracer.Identity{PID: owner.pid()}})
		owner.goOn()
		owner.until("ready")
		require.NoError(t, unix.Kill(int(owner.pid()), unix.SIGHUP))
		owner.tell("x") // a trap runs when the read is over
		if s := v.next(tracer.EventExit).Signal; !fromUs(s, unix.SIGHUP) || !s.Passed {
			t.Errorf("%+v", s)
		}
	})
}

// TestStop stops and continues a member.
func TestStop(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	v := newVictim(t, tr, collect(t, tr), "echo ready; read x; echo on; read x")
	v.until("ready")
	stopped := func() (is bool) {
		require.NoError(t, tr.Snapshot(v.id, func(p *tracer.Process) error {
			is = is || p.PID == v.pid() && p.Stopped
			return nil
		}))
		return is
	}
	v.signal(unix.SIGSTOP)
	if s := v.next(tracer.EventStop).Signal; !fromUs(s, unix.SIGSTOP) {
		t.Fatalf("%+v", s)
	}
	until(t, "it is stopped", stopped)
	v.signal(unix.SIGCONT)
	if s := v.next(tracer.EventContinue).Signal; !fromUs(s, unix.SIGCONT) {
		t.Fatalf("%+v", s)
	}
	until(t, "it goes on", func() bool { return !stopped() })
	v.tell("x")
	v.until("on")          // it has run since
	v.signal(unix.SIGCONT) // it was not stopped: nothing to report
	v.signal(unix.SIGKILL)
	for ev := range v.events {
		require.Equal(t, ev.Type != tracer.EventContinue, true)
		if ev.Type == tracer.EventExit && ev.Process.PID == v.pid() {
			break
		}
	}
}

// TestSignalFlood has a member send itself many signals that do not kill it: they must not
// push other events out of the ring.
func TestSignalFlood(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	v := newVictim(t, tr, collect(t, tr), `trap : TERM; trap '' HUP; i=0; while [ $i -lt 3000 ]; do kill -TERM $$; kill -HUP $$; i=$((i+1)); done; echo ready; read x`)
	v.until("ready")
	before, err := tr.Counters()
	require.NoError(t, err)
	if n := before["events"]; n > 100 {
		t.Errorf("%d events", n)
	}
	for range 2000 {
		v.signal(unix.SIGSTOP)
		v.signal(unix.SIGCONT)
	}
	after, err := tr.Counters()
	require.NoError(t, err)
	// Within two windows at most; a stop that the next SIGCONT overtook does not count.
	if n := after["events"] - before["events"]; n == 0 || n > 2*512+10 || after["stop_limited"] == 0 {
		t.Errorf("%d events, %d left out", n, after["stop_limited"])
	}
}
