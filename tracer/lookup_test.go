//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// Identify agrees with the kernel's own walk, for the living and for zombies.
func TestIdentify(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{})
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
		got, err := tr.Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range members(t, tr, 0) {
			if p.PID == pid && p.Identity != got {
				t.Errorf("%v is %v in the walk", got, p.Identity)
			}
		}
	}
	zombie.cmd.Wait()
	for _, pid := range []uint32{0, zombie.pid(), thread(t), 1 << 30} {
		if got, err := tr.Identify(pid); !errors.Is(err, tracer.ErrNotFound) {
			t.Errorf("pid %d is %v, %v", pid, got, err)
		}
	}
}
