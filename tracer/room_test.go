//go:build linux

package tracer_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// The dead of a storm are more than there is room for, as the kernel tells a
// grace period late that one was waited for. Room is made: nobody's death goes
// unremembered.
func TestRoomForTheDead(t *testing.T) {
	dir := tracertest.Dir(t)
	// Of 20,000 a second there are 200 until room may be made again; some times as
	// many of a storm that catches up.
	const room = 2001
	pretendPIDMax(t, room)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	w := program(t, "vforkstorm", "20000", strconv.Itoa(int(tracertest.Slowed(time.Second).Seconds())), "8")
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	storm := strings.Fields(w.until("storm"))
	if made, err := strconv.Atoi(storm[1]); err != nil || made < 2*room {
		t.Fatalf("the storm says %v, too few to fill anything", storm)
	}
	if n := counter(t, tr, "dead_failed"); n != 0 {
		t.Errorf("%d of %s dead were not remembered", n, storm[1])
	}
	if err := tr.End(id, tracer.CauseEnd, 0); err != nil {
		t.Fatal(err)
	}
	nobodyLives(t, tr, id, 3)
	w.gone()
	w.wait()
	settled(t, tr, id)
}

// pretendPIDMax has this kernel say that it has fewer PIDs: what is sized by
// their number gets small. The mount namespace is the tests' own.
func pretendPIDMax(t *testing.T, n int) {
	t.Helper()
	const path = "/proc/sys/kernel/pid_max"
	file := filepath.Join(t.TempDir(), "pid_max")
	if err := os.WriteFile(file, []byte(strconv.Itoa(n)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
}
