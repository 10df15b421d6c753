//go:build linux

package tracer_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write what was counted as what is expected")

// slack is by how many per cent a count may exceed the file.
const slack = 5

// A program that has grown is slower for every process of a host, and no timing on a
// shared machine would show it. So the instructions that the kernel runs, and those
// that its verifier visited, are compared with a file. If they grow for a reason, the
// file is rewritten, and the change says why.
func TestInstructions(t *testing.T) {
	const path = "testdata/instructions.txt"
	tr := tracertest.New(t, tracer.Options{})
	counts, err := tr.Instructions()
	require.NoError(t, err)
	// Programs that are left out for a kernel do not count there.
	host := "# Linux " + regexp.MustCompile(`^\d+\.\d+`).FindString(kernelRelease(t))
	if _, loaded := counts[bpf.LineageProgAttachBirth]; loaded {
		host += " with trampolines"
	}
	var now bytes.Buffer
	fmt.Fprintf(&now, "%s: program, instructions, those that the verifier looked at\n", host)
	total := tracer.Instructions{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&now, "%s %d %d\n", name, counts[name].Run, counts[name].Verified)
		total.Run += counts[name].Run
		total.Verified += counts[name].Verified
	}
	// The verifier's time is most of a cold start.
	fmt.Fprintf(&now, "total %d %d\n", total.Run, total.Verified)
	counts["total"] = total
	if *update {
		require.NoError(t, os.WriteFile(path, now.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, _ := strings.Cut(string(want), "\n")
	if !strings.HasPrefix(head, host+":") {
		t.Skipf("this host is %q; %s is of another: %q", host, path, head)
	}
	seen := 0
	for line := range strings.Lines(rest) {
		var name string
		var limit tracer.Instructions
		if _, err := fmt.Sscan(line, &name, &limit.Run, &limit.Verified); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		got, loaded := counts[name]
		if !loaded {
			t.Errorf("%s is not loaded", name)
			continue
		}
		seen++
		if got.Run > limit.Run+limit.Run*slack/100 || got.Verified > limit.Verified+limit.Verified*slack/100 {
			t.Errorf("%s has %d instructions, %d verified; it had %d, %d. go test ./tracer -run TestInstructions -update writes the new ones",
				name, got.Run, got.Verified, limit.Run, limit.Verified)
		}
	}
	if seen != len(counts) {
		t.Errorf("%d of %d programs stand in %s", seen, len(counts), path)
	}
}

func kernelRelease(t *testing.T) string {
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	return unix.ByteSliceToString(name.Release[:])
}
