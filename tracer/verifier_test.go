//go:build linux

package tracer_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// verifierLimit is BPF_COMPLEXITY_LIMIT_INSNS. A program that comes near it fails on
// the next kernel whose verifier visits more states.
const verifierLimit = 1_000_000

// Every program leaves half of the verifier's budget unused.
func TestVerifierBudget(t *testing.T) {
	defer tracer.VerifierStats()()
	tr := tracertest.New(t, tracer.Options{})
	processed := regexp.MustCompile(`processed (\d+) insns`)
	logs := tr.VerifierLogs()
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		m := processed.FindStringSubmatch(logs[name])
		if m == nil {
			t.Errorf("%s: no count in %q", name, logs[name])
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil || n > verifierLimit/2 {
			t.Errorf("%s: %s instructions verified, the limit is %d", name, m[1], verifierLimit)
		}
		t.Logf("figure: %s: verified %d instructions", name, n)
	}
}
