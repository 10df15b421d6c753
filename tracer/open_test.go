//go:build linux

package tracer_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// A kernel gives the level that its version promises: a test that skips because of the
// level skips for a valid reason.
func TestOpen(t *testing.T) {
	t0 := time.Now()
	tr := tracertest.New(t, tracer.Options{})
	f := tr.Features()
	t.Logf("opened in %v, features %+v", time.Since(t0), f)
	if want := tracertest.Promised(t); f.Level != want {
		t.Errorf("level %d, want %d: %v", f.Level, want, f.Missing)
	}
}
