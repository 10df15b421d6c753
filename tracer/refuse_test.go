//go:build linux

package tracer_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// forbidden reports whether this kernel may refuse programs that others of its version
// load, and did: it is locked down, or does not say that it is not, and each reason is
// EPERM.
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

// bpfLSM reports whether bpf is among the active security modules; known: the kernel
// lists them.
func bpfLSM() (active, known bool) {
	b, err := os.ReadFile("/sys/kernel/security/lsm")
	return strings.Contains(","+string(b)+",", ",bpf,"), err == nil
}

// needsLSM fails if this kernel should run LSM programs, but did not because of why;
// else it skips.
func needsLSM(t *testing.T, why error) {
	t.Helper()
	active, known := bpfLSM()
	tracertest.Lacks(t, (active || !known) && !forbidden(why.Error()), why)
}

// A kernel that is not locked down can refuse forks and signals.
func TestRefuser(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	f := tr.Features()
	t.Logf("refuses forks: %v, signals: %v, limits %q", f.Refuses, f.RefusesSignals, f.Limits)
	want := tracer.RefuserFmodRet
	if active, known := bpfLSM(); active || !known && f.Refuses == tracer.RefuserLSM {
		want = tracer.RefuserLSM
	}
	if f.Refuses != want || f.RefusesSignals != want {
		tracertest.Lacks(t, !forbidden(f.Limits...), f.Limits)
	}
	tr.Close()
	if got := tracertest.New(t, tracer.Options{Dir: dir}).Features(); got.Refuses != want || got.RefusesSignals != want {
		t.Errorf("opened again it is %v, %v: %q", got.Refuses, got.RefusesSignals, got.Limits)
	}
}

// A condemned member may not fork, in any way, and dies if it tries. Its threads keep
// running, and so do all processes of others. Below level 3 no process dies of the state
// alone: its children live for as long as this test looks.
func TestForkOfTheCondemned(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Level: 2})
	if tr.Features().Refuses == tracer.RefuserNone {
		tracertest.Lacks(t, !forbidden(tr.Features().Limits...), tr.Features().Limits)
	}
	outsider := program(t, "forks", "0")
	outsider.goOn()
	outsider.until("ready")
	refused := uint64(0)
	for _, way := range []string{"fork", "vfork", "clone3", "posix_spawn", "thread"} {
		w, id := programIn(t, tr, "forks", "3")
		w.goOn()
		w.until("ready")
		require.NoError(t, tr.Condemn(id))
		if s, err := tr.Session(id); err != nil || s.State != tracer.StateCondemned || s.Live != 4 {
			t.Fatalf("the condemned session is %+v, %v", s, err)
		}
		outsider.tell(way)
		require.Equal(t, outsider.line(), way+" 0")
		w.tell(way)
		live := int64(3)
		if way == "thread" {
			live = 4
			require.Equal(t, w.line(), "thread 0")
		} else {
			refused++
			if status := w.wait(); status.Signal() != unix.SIGKILL {
				t.Errorf("%s of the condemned: status %#x", way, status)
			}
		}
		s, err := tr.Session(id)
		if n := counter(t, tr, "fork_refused"); n != refused || err != nil || s.Live != live || s.Forks != 3 {
			t.Errorf("%s: %d refused, session %+v, %v", way, n, s, err)
		}
		sentenced(t, tr, id)
		w.gone()
		settled(t, tr, id)
	}
}

// Its refused fork carries out what is due for the others: on an idle host there is no other event.
func TestRefusedForkMakesThePass(t *testing.T) {
	defer tracer.SentenceOnlyIn("")()
	tr := tracertest.New(t, tracer.Options{})
	tracertest.NeedsLevel(t, 3, tr.Features().Level)
	if tr.Features().Refuses == tracer.RefuserNone {
		tracertest.Lacks(t, !forbidden(tr.Features().Limits...), tr.Features().Limits)
	}
	w, id := programIn(t, tr, "forks", "3")
	w.goOn()
	w.until("ready")
	require.NoError(t, tr.MarkCondemned(id))
	live(t, tr, map[tracer.SessionID]int64{id: 4})
	w.tell("fork")
	w.gone()
	w.wait()
	settled(t, tr, id)
}

func sentence(t testing.TB, tr *tracer.Tracer) {
	t.Helper()
	_, err := tr.Sentence()
	require.NoError(t, err)
}

// sentenced makes passes until no member of the session lives.
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

// none fails for each of these that was counted.
func none(t *testing.T, tr *tracer.Tracer, names ...string) {
	t.Helper()
	for _, name := range names {
		if n := counter(t, tr, name); n != 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
}

func counter(t *testing.T, tr *tracer.Tracer, name string) uint64 {
	t.Helper()
	all, err := tr.Counters()
	require.NoError(t, err)
	return all[name]
}
