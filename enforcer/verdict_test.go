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

// TestStillExiting: a process that is counted as dead may be on the task list for a
// moment. One that is alive, or stays, means that the verdict is not clean.
func TestStillExiting(t *testing.T) {
	for name, c := range map[string]struct {
		dead, goes bool
		verdict    api.Verdict
		within     time.Duration
	}{
		"it goes":     {true, true, api.VerdictClean, exitPause},
		"it stays":    {true, false, api.VerdictUnknown, exitPause + maxPause},
		"it is alive": {false, false, api.VerdictUnknown, maxPause},
	} {
		t.Run(name, func(t *testing.T) {
			k, e, id := host(t)
			k.Add(50, 1, "late")
			k.Edit(50, func(p *kerneltest.Proc) { p.Session, p.Dead, p.Stubborn = id, c.dead, true })
			begin := k.Now()
			require.NoError(t, e.End(id, tracer.CauseEnd, 0))
			_, over := e.Step()
			if c.dead && len(over) > 0 {
				t.Fatalf("a verdict at once: %+v", over)
			}
			if c.goes {
				k.Reap(50)
			}
			if len(over) == 0 {
				over = settle(t, k, e)
			}
			if r := one(t, over); r.Verdict != c.verdict || k.Now()-begin > c.within {
				t.Errorf("after %v: %+v", k.Now()-begin, r)
			}
		})
	}
}

func TestUnknown(t *testing.T) {
	t.Run("births missed", func(t *testing.T) {
		k, e, id := host(t)
		k.Miss("fork_birth") // before: does not count against it
		e.Began(id, e.Begin())
		k.Miss("fork_birth")
		require.NoError(t, e.End(id, tracer.CauseEnd, 0))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown || !r.Confirmed {
			t.Errorf("result %+v", r)
		}
	})
	t.Run("no misses since it began", func(t *testing.T) {
		k, e, id := host(t)
		k.Miss("fork_birth")
		e.Began(id, e.Begin())
		require.NoError(t, e.End(id, tracer.CauseEnd, 0))
		clean(t, k, e)
	})
	t.Run("misses cannot be read", func(t *testing.T) {
		k, e, id := host(t)
		k.Fail("MissedBirths", errors.New("broken"))
		require.NoError(t, e.End(id, tracer.CauseEnd, 0))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown {
			t.Errorf("result %+v", r)
		}
	})
	t.Run("task list cannot be read", func(t *testing.T) {
		k, e, id := host(t)
		k.Fail("Snapshot", errors.New("broken"))
		require.NoError(t, e.End(id, tracer.CauseEnd, 0))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown || r.Confirmed {
			t.Errorf("result %+v", r)
		}
	})
	t.Run("task list disagrees", func(t *testing.T) {
		k, e, id := host(t)
		k.Add(77, 1, "uncounted")
		join(k, 77, id)
		k.Edit(77, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
		require.NoError(t, e.End(id, tracer.CauseEnd, 0))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown || len(r.Left) != 1 {
			t.Errorf("result %+v", r)
		}
	})
	t.Run("the count had drifted", func(t *testing.T) {
		k, e, id := host(t)
		e.kernel = drifted{k}
		require.NoError(t, e.End(id, tracer.CauseEnd, 0))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown || r.Confirmed || !strings.Contains(r.Why, "corrected") {
			t.Errorf("result %+v", r)
		}
	})
	t.Run("members are counted", func(t *testing.T) {
		for _, info := range []tracer.SessionInfo{{State: tracer.StateEmpty, Live: 1}, {State: tracer.StateEmpty, Dying: 1}} {
			_, e, _ := host(t)
			info.ID = 777 // the task list has no member of it
			if r := e.prove(info); r.Verdict != api.VerdictUnknown || r.Confirmed {
				t.Errorf("%d live, %d dying: %+v", info.Live, info.Dying, r)
			}
		}
	})
	t.Run("no answer", func(t *testing.T) {
		k, e, id := host(t)
		require.NoError(t, e.End(id, tracer.CauseEnd, time.Second))
		k.Fail("Settle", errors.New("broken"))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown {
			t.Errorf("result %+v", r)
		}
	})
	t.Run("no answer, minutes after another one", func(t *testing.T) {
		k, e, id := host(t)
		k.Edit(31, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
		require.NoError(t, e.End(id, tracer.CauseEnd, time.Hour))
		for _, err := range []error{errors.New("broken"), nil, errors.New("broken")} {
			k.Fail("Session", err)
			if _, over := e.Step(); len(over) > 0 {
				t.Errorf("%v: %+v", err, over)
			}
			k.Advance(time.Minute)
		}
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown {
			t.Errorf("result %+v", r)
		}
		k.Advance(time.Minute)
		if _, over := e.Step(); len(over) > 0 {
			t.Errorf("again: %+v", over)
		}
	})
	t.Run("record is gone", func(t *testing.T) {
		_, e, _ := host(t)
		e.Watch(12345)
		k, _, _ := host(t)
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictUnknown || !r.Gone {
			t.Errorf("result %+v", r)
		}
	})
}

// drifted has lost a member, and noticed it when it closed the session.
type drifted struct{ *kerneltest.Kernel }

func (d drifted) Settle(id tracer.SessionID) (tracer.SessionInfo, error) {
	s, err := d.Kernel.Settle(id)
	s.Drifted = true
	return s, err
}
