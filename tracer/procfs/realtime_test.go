//go:build linux

package procfs

import "testing"

func TestIsRealtime(t *testing.T) {
	for version, want := range map[string]bool{
		"#1 SMP PREEMPT_RT Debian 6.18.15-1~bpo13+1 (2026-03-12)":   true,
		"#1 SMP PREEMPT_DYNAMIC Debian 6.18.15-1~bpo13+1 (2026-03)": false,
		"#1 SMP Debian 5.10.262-1 (2026-07-31)":                     false,
		"#1 SMP PREEMPT_RTX":                                        false,
		"":                                                          false,
	} {
		if got := isRealtime(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
