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

type Capability = cap.Value

// What a daemon may need.
const (
	Kill          Capability = cap.KILL            // signals to processes of other uids
	Ptrace        Capability = cap.SYS_PTRACE      // the exe, the files and the namespaces of others, in procfs
	ReadSearch    Capability = cap.DAC_READ_SEARCH // /proc/PID/fd of others, which only its owner may list
	WriteAnywhere Capability = cap.DAC_OVERRIDE    // files in a directory that is not root's
	BPF           Capability = cap.BPF             // programs and maps
	Admin         Capability = cap.SYS_ADMIN       // for that, on kernels that do not have it
)

// DropPrivileges leaves this process only those of the given capabilities that it has, and none
// that an exec could restore: it empties the inheritable and ambient sets, removes the
// others from the bounding set, and sets no_new_privs. It changes every thread at once;
// nothing else may change them meanwhile.
//
// Without CAP_SETPCAP the bounding set stays, which is an error, returned after the
// rest is done: no_new_privs alone does not deny the set to an exec by root.
func DropPrivileges(keep ...Capability) error {
	if _, err := cap.Prctlw(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := cap.ResetAmbient(); err != nil {
		return fmt.Errorf("empty the ambient set: %w", err)
	}
	bounding := dropBounding(keep)
	has, left := cap.GetProc(), cap.NewSet()
	for _, c := range keep {
		had, err := has.GetFlag(cap.Permitted, c)
		if had { // a container's root may lack it from the start
			err = errors.Join(left.SetFlag(cap.Permitted, true, c), left.SetFlag(cap.Effective, true, c))
		}
		if err != nil {
			return fmt.Errorf("keep %v: %w", c, err)
		}
	}
	if err := left.SetProc(); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return bounding
}

func dropBounding(keep []Capability) error {
	for c := range cap.MaxBits() {
		if slices.Contains(keep, c) {
			continue
		}
		if in, err := cap.GetBound(c); err != nil || !in {
			continue // unknown to this kernel, or not in the set
		}
		if err := cap.DropBound(c); err != nil {
			return fmt.Errorf("take %v out of the bounding set: %w", c, err)
		}
	}
	return nil
}

func HeldCapabilities() ([]string, error) {
	has := cap.GetProc()
	names := []string{}
	for c := range cap.MaxBits() {
		in, err := has.GetFlag(cap.Effective, c)
		if err != nil {
			return nil, fmt.Errorf("look for %v: %w", c, err)
		}
		if in {
			names = append(names, c.String())
		}
	}
	return names, nil
}

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
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || st.Uid != 0 { // for audit log and socket
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
// work without them; nil if none is missing. Held are names, as returned by [HeldCapabilities].
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
