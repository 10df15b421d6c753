//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Identify agrees with the kernel's own walk, for live processes and zombies.
func TestIdentify(t *testing.T) { onEachSide(t, testIdentify) }

func testIdentify(t *testing.T, tr *tracer.Tracer) {
	zombie := start(t, "exit 0")
	zombie.goOn()
	until(t, "a zombie", func() bool {
		for _, p := range members(t, tr, 0) {
			if p.PID == zombie.pid() {
				return p.Zombie
			}
		}
		return false
	})
	for _, pid := range []uint32{uint32(os.Getpid()), zombie.pid()} {
		got := identify(t, tr, pid)
		for _, p := range members(t, tr, 0) {
			if p.PID == pid && p.Identity != got {
				t.Errorf("%v is %v in the walk", got, p.Identity)
			}
		}
	}
	zombie.wait()
	for _, pid := range []uint32{0, zombie.pid(), thread(t), 1 << 30} {
		if got, err := tr.Identify(pid); !errors.Is(err, tracer.ErrNotFound) {
			t.Errorf("pid %d is %v, %v", pid, got, err)
		}
	}
}

// The dead of a session are members until they are reaped, and belong to no session
// once its record is gone.
func TestSnapshotHasZombies(t *testing.T) { onEachSide(t, testSnapshotHasZombies) }

func testSnapshotHasZombies(t *testing.T, tr *tracer.Tracer) {
	w := program(t, "zombies", "5")
	id := create(t, tr, w, tracer.SessionSpec{KeepOnRootExit: true})
	w.goOn()
	dead := func() (n int) {
		for _, p := range members(t, tr, id) {
			if p.Zombie && p.Session == id && p.Dead {
				n++
			}
		}
		return n
	}
	until(t, "five zombies", func() bool { return dead() == 5 })
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	settled(t, tr, id)
	until(t, "the root is a zombie", func() bool { return dead() >= 1 })
	require.NoError(t, tr.Release(id))
	for _, p := range members(t, tr, 0) {
		if p.Session == id {
			t.Errorf("of a session that is gone: %+v", p)
		}
	}
	w.wait()
}
