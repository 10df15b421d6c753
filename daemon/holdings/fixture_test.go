//go:build linux

package holdings

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// fixture is the holdings of a registry over a kernel made of Go.
type fixture struct {
	*testing.T
	*Holdings
	k        *kerneltest.Kernel
	registry *registrytest.Fixture
}

// newFixture begins to run the registry. Run of the holdings is not called.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := registrytest.New(t, func(o *registry.Options) { o.Proc = "/proc" })
	h := New(Options{Ground: r.Ground(), Every: time.Millisecond, PortsWait: policy.Default().Wait.Ports.Std})
	r.R.Attach(h.Hooks())
	r.Run()
	return &fixture{t, h, r.K, r}
}

func (f *fixture) sample() {
	f.Helper()
	_, err := f.registry.R.Resync(registry.CauseNone)
	require.NoError(f, err)
}

// pass looks, and makes the pass that follows.
func (f *fixture) pass() { f.sample(); f.Holdings.pass(f.Context()) }

// apply has the registry apply what the kernel has sent since.
func (f *fixture) apply() {
	f.Helper()
	require.NoError(f, f.k.Flush())
	var batch []tracer.Event
	for {
		var ev tracer.Event
		if err := f.k.Read(&ev); errors.Is(err, tracer.ErrFlushed) {
			break
		} else if err != nil {
			f.Fatal(err)
		}
		batch = append(batch, ev)
	}
	f.registry.Update(func(tx registry.Tx) { tx.Apply(batch) })
}

// holds checks the ports that the document of a session has.
func (f *fixture) holds(what string, s *registry.Session, want ...int) {
	f.Helper()
	var got []int
	f.registry.Update(func(tx registry.Tx) { got = tx.Record(s).Ports })
	if !slices.Equal(got, want) {
		f.Errorf("%s: %v, want %v", what, got, want)
	}
}

// now is what the members of a session hold.
func (f *fixture) now(s *registry.Session) (all Held) {
	f.Helper()
	f.registry.Update(func(tx registry.Tx) { all = f.Held(tx.View, s) })
	return all
}

func addresses(h Held) (all []string) {
	for _, p := range h.Ports {
		all = append(all, p.String())
	}
	return all
}
