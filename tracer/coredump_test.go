//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

const reserved = 100 << 30 // bytes that the member maps

// A member that dumps its core has SIGNAL_GROUP_EXIT, like one that is being killed. But it keeps
// its ports and locks for as long as the dump takes, unless it gets SIGKILL.
func TestCoreDump(t *testing.T) {
	for level := 2; level <= 4; level++ {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) { testCoreDump(t, tracer.Options{Level: level}) })
	}
	if tracertest.AtLeast(t, 6, 7) {
		t.Run("baseline", func(t *testing.T) { testCoreDump(t, tracer.Options{Baseline: true}) })
	}
}

func testCoreDump(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	tracertest.NeedsLevel(t, o.Level, tr.Features().Level)
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.ContainsAny(string(pattern), "|/") {
		t.Skipf("core_pattern is %q (%v): a dump would not go to the test's folder", strings.TrimSpace(string(pattern)), err)
	}
	var limit unix.Rlimit // sudo forbids dumps, and root without CAP_SYS_RESOURCE cannot allow them again
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	limit.Max = unix.RLIM_INFINITY
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Skipf("core dumps are forbidden: %v", err)
	}
	for _, ends := range []string{"asked for", "root exits"} {
		t.Run(ends, func(t *testing.T) {
			dir := t.TempDir()
			w, id := programIn(t, tr, "coredump", dir)
			w.goOn()
			member := strings.Fields(w.until("member"))[1]
			pid, err := strconv.Atoi(member)
			require.NoError(t, err)
			t.Cleanup(func() { unix.Kill(pid, unix.SIGKILL) }) // no minute of dumping if the test fails
			until(t, "it dumps", func() bool {
				status, err := os.ReadFile("/proc/" + member + "/status")
				return err == nil && strings.Contains(string(status), "CoreDumping:\t1")
			})
			began := time.Now()
			if ends == "asked for" {
				require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
			} else {
				w.goOn()
			}
			nobodyLives(t, tr, id, 4)
			t.Logf("figure: dead %v after the end", time.Since(began).Round(time.Millisecond))
			w.gone()
			w.wait()
			settled(t, tr, id)
			cores, err := filepath.Glob(filepath.Join(dir, "core*"))
			if err != nil || len(cores) != 1 {
				t.Fatalf("cores: %v, %v", cores, err)
			}
			if info, err := os.Stat(cores[0]); err != nil || info.Size() >= reserved {
				t.Errorf("the dump was written to its end, %d bytes (%v)", info.Size(), err)
			}
		})
	}
}
