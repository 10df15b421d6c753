//go:build linux

package system

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

func TestGated(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-46-cloud-amd64": true, "5.18.19": true, "5.19.0": false, "6.1.0-56-amd64": false, "7.2.12": false, "4.19": true, "": true, "x": true,
	} {
		if bpfGated(release) != want {
			t.Errorf("%q: %v", release, !want)
		}
	}
}

// TestLoader: on an old kernel a daemon keeps what it has: docker before version 23 can
// give it CAP_SYS_ADMIN only.
func TestLoader(t *testing.T) {
	for _, c := range []struct {
		has  []Capability
		want Capability
	}{{[]Capability{Admin, BPF}, BPF}, {[]Capability{BPF}, BPF}, {[]Capability{Admin}, Admin}, {nil, BPF}} {
		has := cap.NewSet()
		require.NoError(t, has.SetFlag(cap.Permitted, true, c.has...))
		if got := loader(has); got != c.want {
			t.Errorf("with %v: %v", c.has, got)
		}
	}
}

func TestLacking(t *testing.T) {
	needed := []Capability{Kill, Ptrace, ReadSearch}
	require.NoError(t, LackingCapabilities(needed, []string{"cap_sys_ptrace", "cap_kill", "cap_dac_read_search"}))
	want := "cap_kill (processes of other users are not signalled at level 2, and not one by one), " +
		"cap_dac_read_search (what processes of other users hold is not known)"
	if err := LackingCapabilities(needed, []string{"cap_sys_ptrace"}); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
