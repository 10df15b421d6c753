//go:build linux

package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// learning is a kernel that learns of a real canary when it is asked for its processes.
type learning struct {
	*kerneltest.Kernel
	root     uint32
	born     func(orphan uint32) // after the births; nil: nothing more
	answers  func(*tracer.Entry) // changes what Lookup answers; nil: nothing
	released int
}

func (k *learning) Identify(pid uint32) (tracer.Identity, error) {
	if k.Proc(pid) == nil {
		k.root = pid
		k.Add(pid, 1, "lngtest-canary")
	}
	return k.Kernel.Identify(pid)
}

func (k *learning) Lookup(pid uint32) (tracer.Entry, error) {
	if k.root != 0 && k.Proc(pid) == nil {
		middle, err := unix.Getsid(int(pid)) // it leads the POSIX session of the orphan
		if err != nil {
			return tracer.Entry{}, err
		}
		k.Fork(k.root, uint32(middle), "lngtest-canary")
		k.Fork(uint32(middle), pid, "lngtest-canary")
		k.Exit(uint32(middle), 0)
		if k.born != nil {
			k.born(pid)
		}
	}
	e, err := k.Kernel.Lookup(pid)
	if err == nil && k.answers != nil {
		k.answers(&e)
	}
	return e, err
}

func (k *learning) Release(id tracer.SessionID) error {
	k.released++
	return k.Kernel.Release(id)
}

// checker is a check of a kernel made of Go.
func checker(t *testing.T) (*Check, *learning) {
	t.Helper()
	k := new(learning)
	now := func() time.Duration { // each look at the clock takes a while: no verdict is waited for in vain
		k.Advance(10 * time.Millisecond)
		return k.Now()
	}
	f := registrytest.New(t, func(o *registry.Options) {
		k.Kernel, o.Kernel = o.Kernel.(*kerneltest.Kernel), k
		o.Clock.Monotonic, o.Clock.Clock, o.Proc = now, time.Now, "/proc"
	})
	f.Run()
	f.Ingest()
	return NewCheck(CheckOptions{Ground: registry.Ground{Registry: f.R, Kernel: k, Proc: f.Proc, Clock: f.Clock, Log: f.Log},
		Command: []string{"/proc/self/exe", CanaryArg}}), k
}

// A check passes only if the kernel has the orphan in its session, by the right creator, and the end is clean.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(*tracer.Entry)
		born    func(*learning, uint32)
		why     string // "": it passes
	}{
		"all is well": {},
		"the orphan is in no session": {answers: func(e *tracer.Entry) { e.Session = 0 },
			why: "the kernel has the orphan in session"},
		"by another evidence": {answers: func(e *tracer.Entry) { e.Evidence = tracer.EvidenceAdopted },
			why: "the kernel has the orphan by adopted"},
		"by another process": {answers: func(e *tracer.Entry) { e.Creator.PID++ },
			why: "the kernel has the orphan by fork from pid"},
		"the orphan cannot be killed": {born: func(k *learning, pid uint32) { k.Edit(pid, func(p *kerneltest.Proc) { p.Stubborn = true }) },
			why: "session ended, verdict left"},
	} {
		t.Run(name, func(t *testing.T) {
			check, k := checker(t)
			k.answers = c.answers
			if c.born != nil {
				k.born = func(orphan uint32) { c.born(k, orphan) }
			}
			check.Now(t.Context())
			got := check.Result()
			if got == nil || got.OK != (c.why == "") || !strings.Contains(got.Why, c.why) {
				t.Fatalf("%+v, want %q", got, c.why)
			}
			if degraded := check.Degraded(); (len(degraded) == 0) != got.OK {
				t.Errorf("result %+v, degraded %q", got, degraded)
			}
			if left := api.VerdictLeft; strings.Contains(c.why, string(left)) != (k.released == 0) {
				t.Errorf("released %d times", k.released)
			}
		})
	}
}

// What the canary makes due and never runs is named, and only for the first check the kernel counts.
func TestHookDoesNotFire(t *testing.T) {
	check, k := checker(t)
	asked, closed := 0, 0
	check.runs = tracer.Runs{Close: func() error { closed++; return nil }, Idle: func() ([]string, error) {
		if asked++; asked == 1 {
			return []string{"exit_death", "free_reaped"}, nil // the second comes late
		}
		return []string{"exit_death"}, nil
	}}
	check.patience = 20 * time.Millisecond
	check.Now(t.Context())
	want := []string{"the self-check failed: these hooks do not fire: exit_death"}
	if got := check.Degraded(); !slices.Equal(got, want) || closed != 1 {
		t.Errorf("%q, closed %d times", got, closed)
	}
	k.root = 0
	if check.Now(t.Context()); closed != 1 || len(check.Degraded()) != 0 {
		t.Errorf("the second check: %+v, closed %d times", check.Result(), closed)
	}
}

// The graph must lead from the orphan to the root of the session. After lost events, it need not know
// the dead process in between, but the creator is the right one in any case.
func TestLacks(t *testing.T) {
	check, k := checker(t)
	k.Identify(100)
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity, Name: registry.HiddenName})
	require.NoError(t, err)
	k.Fork(100, 101, "middle")
	k.Fork(101, 102, "orphan")
	root, alive := k.Proc(100).Identity, k.lookup(t, 102)
	lacking := func(orphan tracer.Entry, id tracer.SessionID, lost uint64) (what string) {
		t.Helper()
		check.Registry.CatchUp(t.Context())
		require.NoError(t, check.Registry.Read(func(v registry.View) { what = lacks(v, id, orphan, root, lost) }))
		return what
	}
	expect := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	expect("the creator lives", lacking(alive, id, 0), "the graph shows the orphan's creator as alive")
	k.Exit(101, 0)
	orphan := k.lookup(t, 102)
	expect("complete", lacking(orphan, id, 0), "")
	expect("another session", lacking(orphan, id+1, 0), "the graph does not have the orphan in its session")
	unknown := orphan
	unknown.PID = 103
	expect("not known", lacking(unknown, id, 0), "the graph does not have the orphan in its session")
	other := orphan
	other.Creator = root
	expect("another creator", lacking(other, id, 0), "the graph has another creator for the orphan")
	expect("another creator, events lost", lacking(other, id, 1), "the graph has another creator for the orphan")
}

func (k *learning) lookup(t *testing.T, pid uint32) tracer.Entry {
	t.Helper()
	e, err := k.Kernel.Lookup(pid)
	require.NoError(t, err)
	return e
}
