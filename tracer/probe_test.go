//go:build linux

package tracer_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// TestTrampolines: a kernel that may crash when a program is attached to a function is not asked for one.
func TestTrampolines(t *testing.T) {
	b, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "int", Size: 4}}, nil)
	require.NoError(t, err)
	raw, err := b.Marshal(nil, nil)
	require.NoError(t, err)
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	require.NoError(t, err)
	for _, err := range tracer.Trampolines(spec) {
		require.Contains(t, fmt.Sprint(err), "e21d2b92354b")
	}
}

// TestTrustedArguments: kernel 6.8 has argument tags, but not the one for a task, and would
// refuse the programs.
func TestTrustedArguments(t *testing.T) {
	for tag, takes := range map[string]bool{"ARG_TAG_CTX": false, "ARG_TAG_TRUSTED": true} {
		b, err := btf.NewBuilder([]btf.Type{&btf.Enum{Name: "btf_arg_tag", Size: 4, Values: []btf.EnumValue{{Name: tag, Value: 1}}}}, nil)
		require.NoError(t, err)
		raw, err := b.Marshal(nil, nil)
		require.NoError(t, err)
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		require.NoError(t, err)
		if err := tracer.TrustedArguments(spec); (err == nil) != takes {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

// TestRefusedPrograms: where the kernel refuses the programs of its level, those of level 2 serve.
func TestRefusedPrograms(t *testing.T) {
	defer tracer.SpoilPrograms()()
	f, r := tracertest.New(t, tracer.Options{}).Features(), tracer.Probe(tracertest.Dir(t), t.TempDir())
	for _, said := range [][]string{f.Degraded, r.Missing} {
		if f.Level != 2 || r.Level != 2 || r.Err != nil ||
			strings.Contains(strings.Join(said, "\n"), "do not fit this kernel") != tracertest.AtLeast(t, 6, 9) {
			t.Errorf("levels %d and %d, %q, %v", f.Level, r.Level, said, r.Err)
		}
	}
}
