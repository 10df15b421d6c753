//go:build linux

package privilege

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Needed are the capabilities of a daemon that serves, on a kernel of that release
// and with its files in dir. It acts on BPF through descriptors that it holds,
// which the kernel checked when they were opened: to run a program, to make an
// iterator, to read a map, to attach the closer of level 2 and to remove pins needs
// no capability, except as bpfGated says.
func Needed(release, dir string) []Capability {
	keep := []Capability{Kill, Ptrace, ReadSearch}
	if bpfGated(release) {
		keep = append(keep, BPF)
	}
	if !ownedByRoot(dir) {
		keep = append(keep, WriteAnywhere)
	}
	return keep
}

// bpfGated reports a kernel that may refuse every call of bpf(2) to processes
// without CAP_BPF, calls on their own descriptors too: before 5.19 (commit
// c8644cd0efe7), where kernel.unprivileged_bpf_disabled is set, as distributions do.
func bpfGated(release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major < 5 || major == 5 && minor < 19
}

// ownedByRoot reports a directory that root may change as its owner. In others,
// audit log and socket need a capability.
func ownedByRoot(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Uid == 0
}
