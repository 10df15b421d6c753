//go:build linux

package enforcer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// settle steps, moving the clock as Run's timer would, until there is a result or
// nothing more to do. The number of steps is bounded.
func settle(t *testing.T, k *kerneltest.Kernel, e *Enforcer) []Result {
	t.Helper()
	for range 10_000 {
		wait, over := e.Step()
		if len(over) > 0 || wait < 0 {
			return over
		}
		k.Advance(wait)
	}
	t.Fatal("no end of steps")
	return nil
}

func one(t *testing.T, over []Result) Result {
	t.Helper()
	if len(over) != 1 {
		t.Fatalf("%d results: %+v", len(over), over)
	}
	return over[0]
}

// clean settles, and fails unless that is the verdict on the only end.
func clean(t *testing.T, k *kerneltest.Kernel, e *Enforcer) {
	t.Helper()
	if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictClean {
		t.Errorf("result %+v", r)
	}
}

func TestEndNow(t *testing.T) {
	k, e, id := host(t)
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	r := one(t, settle(t, k, e))
	if r.Verdict != api.VerdictClean || !r.Confirmed || r.Info.State != tracer.StateEmpty || r.Info.Cause != tracer.CauseEnd {
		t.Errorf("result %+v", r)
	}
	for _, s := range k.Signals() {
		if !s.Kill || s.To.PID != 30 && s.To.PID != 31 {
			t.Errorf("signal %+v", s)
		}
	}
}

// busy is a kernel that does something else before its second answer about a session is used, the last
// of a look.
type busy struct {
	*kerneltest.Kernel
	asked     int
	meanwhile func()
}

func (k *busy) Session(id tracer.SessionID) (tracer.SessionInfo, error) {
	info, err := k.Kernel.Session(id)
	if k.asked++; k.meanwhile != nil && k.asked == 2 {
		f := k.meanwhile
		k.meanwhile = nil
		f()
	}
	return info, err
}

// TestEndDuringLook: an end that begins while a look finds the session active is followed.
func TestEndDuringLook(t *testing.T) {
	k, e, id := host(t)
	b := &busy{Kernel: k}
	e.kernel = b
	e.Watch(id)
	b.meanwhile = func() {
		if err := e.End(id, tracer.CauseEnd, 0); err != nil {
			t.Error(err)
		}
	}
	if _, over := e.Step(); len(over) > 0 || b.meanwhile != nil {
		t.Fatalf("no end during the look: %+v", over)
	}
	clean(t, k, e)
}

// TestEndGrace: a member has the whole grace, and nothing is said of it before, however long that is.
func TestEndGrace(t *testing.T) {
	const grace = 2 * defaultLimit
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	begin := k.Now()
	require.NoError(t, e.End(id, tracer.CauseEnd, grace))
	clean(t, k, e)
	if took := k.Now() - begin; took < grace || took > grace+2*maxPause {
		t.Errorf("took %v", took)
	}
	first := slices.IndexFunc(k.Signals(), func(s kerneltest.Signal) bool { return s.Kill })
	for i, s := range k.Signals() {
		if s.Kill != (i >= first) || s.Kill && s.To.PID != 31 {
			t.Errorf("signal %d is %+v", i, s)
		}
	}
}

// TestEndShortened: a repeat with grace 0 does not wait for the old deadline.
func TestEndShortened(t *testing.T) {
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	require.NoError(t, e.End(id, tracer.CauseEnd, time.Minute))
	e.Step()
	begin := k.Now()
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	clean(t, k, e)
	if took := k.Now() - begin; took > maxPause {
		t.Errorf("took %v", took)
	}
}

// TestBelowLevel4: the kernel only changes states, all signals come from passes.
func TestBelowLevel4(t *testing.T) {
	k, e, id := host(t)
	k.Feature.Level = 3
	k.Edit(31, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	k.Exit(30, 0) // the root's death begins the end, with the session's grace of 0
	e.Watch(id)
	if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictClean || r.Info.Cause != tracer.CauseRootExit {
		t.Errorf("result %+v", r)
	}
}

// TestForkers: for a while, every pass leaves new children behind.
func TestForkers(t *testing.T) {
	k, e, id := host(t)
	pid := uint32(100)
	k.Newborn = func() {
		if pid < 400 && k.SlipIn(pid+1, 1, id) { // linked before it was entered: born alive, not killed at birth
			pid++
		}
	}
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictClean || r.Info.Live != 0 {
		t.Errorf("result %+v", r)
	}
	for p := uint32(101); p <= pid; p++ {
		if k.Proc(p) != nil {
			t.Fatalf("pid %d lives", p)
		}
	}
}

// TestLeft: after the limit the verdict names the processes that are left, and why; the
// session stays watched and becomes clean when its last member dies.
func TestLeft(t *testing.T) {
	k, e, id := host(t)
	proc := t.TempDir()
	e.proc = procfs.FS(proc)
	for name, text := range map[string]string{"31/stat": "31 (a) b) D 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", "31/wchan": "io_schedule"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600))
	}
	k.Edit(31, func(p *kerneltest.Proc) { p.Stubborn = true })
	begin := k.Now()
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	r := one(t, settle(t, k, e))
	if r.Verdict != api.VerdictLeft || len(r.Left) != 1 || r.Left[0].PID != 31 || r.Why != "1 state D (io_schedule)" {
		t.Errorf("result %+v", r)
	}
	if took := k.Now() - begin; took < defaultLimit || took >= 10*time.Second { // not longer than the commands wait
		t.Errorf("took %v", took)
	}
	for range 2 {
		wait, over := e.Step()
		if len(over) != 0 || wait <= 0 || wait > leftPause {
			t.Errorf("after the verdict: %v %v", wait, over)
		}
		k.Advance(wait)
	}
	k.Edit(31, func(p *kerneltest.Proc) { p.Stubborn = false })
	clean(t, k, e)
	if wait, _ := e.Step(); wait >= 0 {
		t.Errorf("still watched: %v", wait)
	}
}

// TestDying: a process that is dead for the exit hook may still exist.
func TestDying(t *testing.T) {
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.Slow = true })
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	for range 5 {
		wait, over := e.Step()
		if len(over) != 0 {
			t.Fatalf("over while one is dying: %+v", over)
		}
		k.Advance(wait)
	}
	k.Finish(31)
	clean(t, k, e)
}

// TestDyingForEver: after its grace, a session of which only the dying remain is looked at with pauses, and judged.
func TestDyingForEver(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Second} {
		k, e, id := host(t)
		k.Edit(31, func(p *kerneltest.Proc) { p.Slow = true })
		require.NoError(t, e.End(id, tracer.CauseEnd, grace))
		if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictLeft || r.Left[0].Why != "exiting" {
			t.Errorf("grace %v: result %+v", grace, r)
		}
	}
}

// A changed limit applies to an end that is already waiting.
func TestSetLimit(t *testing.T) {
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.Stubborn = true })
	e.SetLimit(time.Hour)
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	for range 100 {
		wait, over := e.Step()
		if len(over) > 0 {
			t.Fatalf("a verdict within the limit: %+v", over)
		}
		k.Advance(wait)
	}
	e.SetLimit(100 * time.Millisecond)
	if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictLeft {
		t.Errorf("result %+v", r)
	}
}

func TestZombiesAreNotLeft(t *testing.T) {
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.Unreaped = true })
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	r := one(t, settle(t, k, e))
	if r.Verdict != api.VerdictClean || len(r.Zombies) != 1 || r.Zombies[0].PID != 31 {
		t.Errorf("result %+v", r)
	}
	rep := new(Receipt).Report(r.Info, 0, 0, &r)
	if rep.Left != 0 || len(rep.Zombies) != 1 || rep.Zombies[0].Reaper == nil {
		t.Errorf("report %+v", rep)
	}
}

// A look that took long because the daemon was stopped does not delay the next one.
func TestStoppedWhileLooking(t *testing.T) {
	k, e, id := host(t)
	k.Feature.Level = 3
	k.Edit(31, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	require.NoError(t, e.End(id, tracer.CauseEnd, time.Hour))
	stopped := time.Duration(0)
	e.clock = func() time.Duration { return k.Now() + stopped }
	k.Newborn = func() { stopped = time.Minute } // in the middle of the look
	if wait, _ := e.Step(); wait > maxRest {
		t.Errorf("the next look is in %v", wait)
	}
	k.Exit(31, 0)
	e.Watch(id)
	if wait, _ := e.Step(); wait > maxRest {
		t.Errorf("the look after a death is in %v", wait)
	}
}

// At level 2 no hook acts on a root's death: the Watch after it makes the pass.
func TestRootExitWithoutHooks(t *testing.T) {
	for name, grace := range map[string]time.Duration{"now": 0, "grace": time.Second} {
		t.Run(name, func(t *testing.T) {
			k, e, _ := host(t)
			k.Feature.Level = 2
			root := k.Add(40, 20, "agent")
			id, err := k.Create(tracer.SessionSpec{Root: root.Identity, Grace: grace})
			require.NoError(t, err)
			k.Fork(40, 41, "worker")
			k.Edit(41, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
			k.Exit(40, 0)
			e.Watch(id)
			begin := k.Now()
			if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictClean || r.Info.Cause != tracer.CauseRootExit {
				t.Errorf("result %+v", r)
			}
			if took := k.Now() - begin; took < grace {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("nobody asked", func(t *testing.T) {
		_, e, id := host(t)
		e.Watch(id)
		if wait, over := e.Step(); wait >= 0 || len(over) != 0 {
			t.Errorf("a session that goes on: %v %v", wait, over)
		}
	})
}

// A process that its parent reaps promptly is not reported.
func TestReapedInTime(t *testing.T) {
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.Unreaped = true })
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	for range 2 { // it is known to be empty by the first step
		if _, over := e.Step(); len(over) > 0 {
			t.Fatalf("over: %+v", over)
		}
		k.Advance(time.Millisecond)
	}
	k.Reap(31)
	if r := one(t, settle(t, k, e)); r.Verdict != api.VerdictClean || len(r.Zombies) != 0 {
		t.Errorf("result %+v", r)
	}
}

func TestRun(t *testing.T) {
	_, e, id := host(t)
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan Result, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx, func(r Result) { results <- r })
	}()
	require.NoError(t, e.End(id, tracer.CauseEnd, 0))
	if r := require.Soon(t, results, "no verdict"); r.Verdict != api.VerdictClean {
		t.Errorf("result %+v", r)
	}
	cancel()
	require.Soon(t, done, "Run does not end")
}

func TestEndUnknownSession(t *testing.T) {
	_, e, _ := host(t)
	if err := e.End(99, tracer.CauseEnd, 0); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// cut is a kernel whose first passes are cut short before they meet a member.
type cut struct {
	*kerneltest.Kernel
	left, passes int
}

func (c *cut) Sentence() (tracer.PassResult, error) {
	c.passes++
	if c.left > 0 {
		c.left--
		return tracer.PassResult{More: true}, nil
	}
	return c.Kernel.Sentence()
}

// TestPassCut: a pass that was cut short is continued at once, although it sent nothing.
func TestPassCut(t *testing.T) {
	k, e, id := host(t)
	k.Feature.Level = 2
	c := &cut{Kernel: k, left: 3}
	e.kernel = c
	k.Exit(30, 0)
	e.Watch(id)
	e.Step()
	if c.passes < 4 || k.Proc(31) != nil && !k.Proc(31).Dead {
		t.Errorf("%d passes in one look: %+v", c.passes, k.Proc(31))
	}
}

// TestSettledLater: an empty session is settled when the others that are killed are empty, too, but it does not
// wait long for them.
func TestSettledLater(t *testing.T) {
	k, e, id := host(t)
	k.Edit(31, func(p *kerneltest.Proc) { p.Stubborn = true })
	k.Add(40, 20, "agent")
	other, err := k.Create(tracer.SessionSpec{Root: k.Proc(40).Identity})
	require.NoError(t, err, e.Halt(tracer.Halt{Mode: tracer.HaltAll, Since: 7}, []tracer.SessionID{id, other}))
	began := k.Now()
	r := one(t, settle(t, k, e))
	if took := k.Now() - began; r.Session != other || r.Verdict != api.VerdictClean || took < crowdPause/2 || took > 2*crowdPause {
		t.Errorf("%+v, after %v", r, took)
	}
}

// TestPassShared: a pass serves all ends of a step, and each has its verdict.
func TestPassShared(t *testing.T) {
	k, e, id := host(t)
	k.Feature.Level = 2
	ids := []tracer.SessionID{id}
	for pid := uint32(40); pid < 60; pid++ {
		k.Add(pid, 20, "agent")
		id, err := k.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	c := &cut{Kernel: k}
	e.kernel = c
	require.NoError(t, e.Halt(tracer.Halt{Mode: tracer.HaltAll, Since: 7}, ids))
	over := settle(t, k, e)
	if len(over) != len(ids) || slices.ContainsFunc(over, func(r Result) bool { return r.Verdict != api.VerdictClean }) {
		t.Errorf("%d results: %+v", len(over), over)
	}
	if c.passes > 2 {
		t.Errorf("%d passes for %d ends", c.passes, len(ids))
	}
}
