//go:build linux

package lookup

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestDeaths: of a user's flood the oldest go, and nobody else's; of a process the first signal counts, but the OOM
// killer's is told later.
func TestDeaths(t *testing.T) {
	d := NewDeaths()
	die := func(pid, start, uid uint32, by tracer.Sender) {
		d.Add(&tracer.Event{
			Process: tracer.Identity{PID: pid, Start: uint64(start)}, Looks: tracer.Looks{UID: uid},
			Signal: &tracer.Signal{Number: 9, Sender: by},
		})
	}
	die(7, 1, 1, tracer.ByKernel)
	die(7, 1, 1, tracer.ByProcess)
	die(8, 2, 1, tracer.ByProcess)
	for n := range uint32(3 * maxDeaths) {
		die(100+n, 3, 2, tracer.ByProcess)
	}
	die(7, 4, 3, tracer.ByProcess)
	require.Equal(t, len(d.all), maxDeaths)
	sender := func(pid uint32, start, but uint64) (by tracer.Sender) {
		if x, ok := d.last(tracer.Identity{PID: pid, Start: start}, tracer.Identity{PID: pid, Start: but}); ok {
			by = x.signal.Sender
		}
		return by
	}
	require.Equal(t, sender(7, 1, 0), tracer.ByProcess)
	require.Equal(t, sender(100, 0, 0), 0)
	require.Equal(t, sender(100+3*maxDeaths-1, 0, 0), tracer.ByProcess)
	require.Equal(t, sender(8, 0, 0), tracer.ByProcess)
	require.Equal(t, sender(8, 0, 2), 0)
	require.Equal(t, sender(8, 3, 0), 0)
	x, _ := d.last(tracer.Identity{PID: 7}, tracer.Identity{})
	require.Equal(t, x.id.Start, 4)
	die(9, 1, 1, tracer.ByProcess)
	die(9, 1, 1, tracer.ByKernel)
	require.Equal(t, sender(9, 0, 0), tracer.ByProcess)
}
