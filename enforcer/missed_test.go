//go:build linux

package enforcer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestMissedBirth: a member unknown to the kernel side is found before its parent dies,
// once for each time that births were missed.
func TestMissedBirth(t *testing.T) {
	const halted = -1
	for name, grace := range map[string]time.Duration{"now": 0, "with a grace": time.Second, "by a halt": halted} {
		t.Run(name, func(t *testing.T) {
			k, e, id := host(t)
			k.Add(50, 31, "missed")
			k.Miss("fork_birth")
			if grace == halted {
				require.NoError(t, e.Halt(tracer.Halt{Mode: tracer.HaltAll}, []tracer.SessionID{id}))
			} else {
				require.NoError(t, e.End(id, tracer.CauseEnd, grace))
			}
			r := one(t, settle(t, k, e))
			if p := k.Proc(50); p != nil && !p.Dead {
				t.Errorf("it lives: %+v", p)
			}
			if r.Verdict != api.VerdictUnknown || r.Why != "1 births may have been missed" {
				t.Errorf("result %+v", r)
			}
			require.Equal(t, k.Reconciled(), 1)
		})
	}
}

// TestNoRoom: a child that could not be entered is searched for before the first signal, each
// time that there are more of them, and the verdict is unknown although nobody is left.
func TestNoRoom(t *testing.T) {
	for name, end := range map[string]func(*kerneltest.Kernel, *Enforcer, tracer.SessionID) error{
		"asked for": func(_ *kerneltest.Kernel, e *Enforcer, id tracer.SessionID) error {
			return e.End(id, tracer.CauseEnd, 0)
		},
		"the kernel's": func(k *kerneltest.Kernel, e *Enforcer, id tracer.SessionID) error {
			k.Feature.Level = 2
			k.Exit(30, 0)
			e.Watch(id)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, e, id := host(t)
			e.kernel = crowded{k}
			k.Add(50, 31, "no room")
			require.NoError(t, end(k, e, id))
			r := one(t, settle(t, k, e))
			if p := k.Proc(50); p != nil && !p.Dead {
				t.Errorf("it lives: %+v", p)
			}
			if r.Verdict != api.VerdictUnknown || !r.Confirmed || !strings.Contains(r.Why, "no room for 1 children") {
				t.Errorf("result %+v", r)
			}
			if n := k.Reconciled(); n == 0 || n > 2 {
				t.Errorf("%d walks", n)
			}
		})
	}
}

// crowded could not enter a child of each session.
type crowded struct{ *kerneltest.Kernel }

func (c crowded) Session(id tracer.SessionID) (tracer.SessionInfo, error) {
	s, err := c.Kernel.Session(id)
	s.Unentered = 1
	return s, err
}

func (c crowded) Settle(id tracer.SessionID) (tracer.SessionInfo, error) {
	s, err := c.Kernel.Settle(id)
	s.Unentered = 1
	return s, err
}

// TestMissedBirthOfKernelsEnd: the same before the first pass of an end that the kernel
// began and left to us.
func TestMissedBirthOfKernelsEnd(t *testing.T) {
	k, e, id := host(t)
	k.Feature.Level = 3
	k.Add(50, 31, "missed")
	k.Miss("fork_birth")
	k.Exit(30, 0)
	e.Watch(id)
	settle(t, k, e)
	if p := k.Proc(50); p != nil && !p.Dead {
		t.Errorf("it lives: %+v", p)
	}
}

// TestNothingMissed: the host is not walked without a reason, and a failed walk is
// repeated.
func TestNothingMissed(t *testing.T) {
	k, e, id := host(t)
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictClean || k.Reconciled() != 0 {
		t.Errorf("%d passes, %+v", k.Reconciled(), r)
	}
	k.Miss("fork_birth")
	k.Fail("Reconcile", errors.New("broken"))
	e.reconcile(false)
	k.Fail("Reconcile", nil)
	e.reconcile(false)
	e.reconcile(false)
	require.Equal(t, k.Reconciled(), 2)
}
