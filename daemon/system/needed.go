//go:build linux

package system

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// NeededCapabilities are the capabilities of a daemon that serves, on a kernel of that release and
// with its files in dir. It uses BPF through descriptors that it holds, which the
// kernel checked when they were opened: running a program, making an iterator, reading
// a map, attaching the closer of level 2 and removing pins need no capability, except
// as bpfGated says.
func NeededCapabilities(release, dir string) []Capability {
	keep := []Capability{Kill, Ptrace, ReadSearch}
	if bpfGated(release) {
		keep = append(keep, loader(cap.GetProc()))
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

// loader is what lets a process use bpf(2): CAP_BPF, or CAP_SYS_ADMIN if it has only
// that, as in a container of an engine that does not know CAP_BPF.
func loader(has *cap.Set) Capability {
	bpf, _ := has.GetFlag(cap.Permitted, BPF)
	admin, _ := has.GetFlag(cap.Permitted, Admin)
	if admin && !bpf {
		return Admin
	}
	return BPF
}

// cannot describes what a daemon without a capability does not do.
var cannot = map[Capability]string{
	Kill:          "processes of other users are not signalled at level 2, and not one by one",
	Ptrace:        "executables, environments and open files of other users' processes cannot be read",
	ReadSearch:    "what processes of other users hold is not known",
	WriteAnywhere: "files in the socket's directory cannot be written",
	BPF:           "the kernel refuses every request",
}

// LackingCapabilities describes which of the needed capabilities are not held, and what does not
// work without them; nil if none is missing. Held are names, as returned by [Held].
func LackingCapabilities(needed []Capability, held []string) error {
	var all []string
	for _, c := range needed {
		if !slices.Contains(held, c.String()) {
			all = append(all, c.String()+" ("+cannot[c]+")")
		}
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, ", "))
}

// ownedByRoot reports whether root may change a directory as its owner. In others,
// audit log and socket need a capability.
func ownedByRoot(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Uid == 0
}
