//go:build linux

package tracer_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

func TestOpen(t *testing.T) {
	t0 := time.Now()
	tr := tracertest.New(t, tracer.Options{})
	t.Logf("opened in %v, features %+v", time.Since(t0), tr.Features())
	if got := tr.Features().Level; got < 3 {
		t.Errorf("level %d", got)
	}
}
