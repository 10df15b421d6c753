//go:build linux

package tracer_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// forbidden reports whether this kernel may refuse programs that others of its
// version load, and did: it is locked down, or does not say that it is not, and
// gives EPERM as each reason.
func forbidden(reasons ...string) bool {
	lockdown, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err == nil && bytes.Contains(lockdown, []byte("[none]")) {
		return false
	}
	for _, one := range strings.Split(strings.Join(reasons, "; "), "; ") {
		if !strings.HasSuffix(one, unix.EPERM.Error()) {
			return false
		}
	}
	return true
}

// bpfLSM reports whether bpf is among the active security modules; known, if
// the kernel tells which they are.
func bpfLSM() (active, known bool) {
	b, err := os.ReadFile("/sys/kernel/security/lsm")
	return strings.Contains(","+string(b)+",", ",bpf,"), err == nil
}

// needsLSM fails if this kernel should run LSM programs and did not for that
// reason, else skips.
func needsLSM(t *testing.T, why error) {
	t.Helper()
	active, known := bpfLSM()
	tracertest.Lacks(t, (active || !known) && !forbidden(why.Error()), why)
}

// A kernel that is not locked down has something that refuses forks.
func TestRefuser(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	f := tr.Features()
	t.Logf("refuses forks: %v, limits %q", f.Refuses, f.Limits)
	want := tracer.RefuserFmodRet
	if active, known := bpfLSM(); active || !known && f.Refuses == tracer.RefuserLSM {
		want = tracer.RefuserLSM
	}
	if f.Refuses != want {
		tracertest.Lacks(t, !forbidden(f.Limits...), f.Limits)
	}
	tr.Close()
	if got := tracertest.New(t, tracer.Options{Dir: dir}).Features(); got.Refuses != want {
		t.Errorf("opened again it is %v: %q", got.Refuses, got.Limits)
	}
}

// A condemned member may not fork, in whatever way. Its threads go on, and so
// does every process of others. Below level 3 nobody dies of the state alone:
// the members live for as long as this test looks.
func TestForkOfTheCondemned(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Level: 2})
	if tr.Features().Refuses == tracer.RefuserNone {
		tracertest.Lacks(t, !forbidden(tr.Features().Limits...), tr.Features().Limits)
	}
	w := program(t, "forks", "3")
	id := create(t, tr, w, tracer.SessionSpec{})
	stranger := program(t, "forks", "0")
	for _, p := range []*workload{w, stranger} {
		p.goOn()
		p.until("ready")
	}
	if err := tr.Condemn(id); err != nil {
		t.Fatal(err)
	}
	if s, err := tr.Session(id); err != nil || s.State != tracer.StateCondemned || s.Live != 4 {
		t.Fatalf("the condemned session is %+v, %v", s, err)
	}
	stranger.goOn()
	for _, want := range []string{"fork 0", "vfork 0", "clone3 0", "posix_spawn 0", "thread 0", "done"} {
		if got := stranger.line(); got != want {
			t.Errorf("a stranger: %q, want %q", got, want)
		}
	}
	w.goOn()
	for _, want := range []string{"fork 1", "vfork 1", "clone3 1", "posix_spawn 1", "thread 0", "done"} {
		if got := w.line(); got != want {
			t.Errorf("the condemned: %q, want %q", got, want)
		}
	}
	s, err := tr.Session(id)
	if n := counter(t, tr, "fork_refused"); n != 4 || err != nil || s.Live != 4 || s.Forks != 3 {
		t.Errorf("%d refused, session %+v, %v", n, s, err)
	}
	sentenced(t, tr, id)
	w.gone()
	w.wait()
	settled(t, tr, id)
}

// sentenced makes passes until nobody of the session lives.
func sentenced(t *testing.T, tr *tracer.Tracer, id tracer.SessionID) {
	t.Helper()
	until(t, "nobody lives", func() bool {
		s, err := tr.Session(id)
		if err == nil && s.Live > 0 {
			_, err = tr.Sentence()
		}
		return err == nil && s.Live == 0
	})
}

func counter(t *testing.T, tr *tracer.Tracer, name string) uint64 {
	t.Helper()
	all, err := tr.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return all[name]
}
