//go:build linux

package procfs

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestCanLoad(t *testing.T) {
	for name, c := range map[string]struct {
		caps []int
		want bool
	}{
		"all of root's":        {[]int{unix.CAP_SYS_ADMIN, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_KILL}, true},
		"those of the kernel":  {[]int{unix.CAP_BPF, unix.CAP_PERFMON}, true},
		"the old one":          {[]int{unix.CAP_SYS_ADMIN}, true},
		"one of two":           {[]int{unix.CAP_BPF}, false},
		"the other":            {[]int{unix.CAP_PERFMON}, false},
		"a container's":        {[]int{unix.CAP_CHOWN, unix.CAP_KILL, unix.CAP_SETUID, unix.CAP_SYS_CHROOT}, false},
		"the highest, no more": {[]int{unix.CAP_CHECKPOINT_RESTORE}, false},
		"none":                 {nil, false},
	} {
		var effective uint64
		for _, bit := range c.caps {
			effective |= 1 << bit
		}
		if got := MayLoadBPF(effective); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
