//go:build linux

package registry

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// newRegistry makes a registry over a kernel made of Go. Run is not called: the test
// acts as the registry's goroutine.
func newRegistry(tb testing.TB) (*Registry, *kerneltest.Kernel) {
	tb.Helper()
	k := kerneltest.New()
	return New(Options{
		Kernel: k, Enforcer: enforcer.New(k, enforcer.Options{Clock: k.Now}), Proc: procfs.FS(tb.TempDir()), Log: zerolog.Nop(), Period: time.Hour,
		Clock: Clock{Monotonic: k.Now, Boottime: func() uint64 { return uint64(k.Now()) }, Clock: func() time.Time { return time.Unix(0, 0) }},
	}), k
}

func session(tb testing.TB, o *Registry, k *kerneltest.Kernel, pid uint32) *Session {
	tb.Helper()
	return sessionOf(tb, o, k, pid, 1000)
}

func unheard(tb testing.TB, k *kerneltest.Kernel, pid uint32) tracer.SessionID {
	tb.Helper()
	k.Add(pid, 1, "lngtest-root")
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity})
	require.NoError(tb, err)
	return id
}

func sessionOf(tb testing.TB, o *Registry, k *kerneltest.Kernel, pid, uid uint32) *Session {
	tb.Helper()
	k.Add(pid, 1, "lngtest-root")
	s, err := Tx{o.view()}.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity, UID: uid})
	require.NoError(tb, err)
	return s
}

func over(o *Registry, s *Session) {
	s.info.State, s.info.EndedAt, s.result = tracer.StateEmpty, 1, &enforcer.Result{Session: s.info.ID, Verdict: api.VerdictClean}
	s.emptyAt = o.o.Clock.Boottime()
	o.conclude(s)
}
