//go:build linux

package daemon

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/privilege"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// needed are the capabilities of a daemon that serves. What it does to BPF it
// does through descriptors that it holds, which the kernel checked when they
// were opened: to run a program, to make an iterator, to read a map, to attach
// the closer of level 2 and to remove pins takes none, but for what bpfGated says.
var needed = []privilege.Capability{privilege.Kill, privilege.Ptrace, privilege.ReadSearch}

// privileges is what the daemon may do, and why that is more than it needs.
type privileges struct {
	held []string
	err  error
}

// giveUp drops what is not needed any more: everything is loaded, attached,
// opened and listened on. A daemon that cannot is no worse than one that never
// tried, and says so in its status.
func (s *server) giveUp(drop func(...privilege.Capability) error, i instance.Instance) {
	if drop == nil {
		return
	}
	keep := slices.Clone(needed)
	if bpfGated(tracer.KernelRelease()) {
		keep = append(keep, privilege.BPF)
	}
	if notRoots(filepath.Dir(i.Socket)) {
		keep = append(keep, privilege.WriteAnywhere)
	}
	p := &s.privileges
	if p.err = drop(keep...); p.err != nil {
		s.log.Error().Err(p.err).Msg("privileges not given up")
	}
	held, err := privilege.Held()
	if err != nil {
		s.log.Error().Err(err).Msg("privileges not read")
		return
	}
	p.held = held
	s.log.Info().Strs(logging.KeyCapabilities, held).Msg("privileges given up")
}

// bpfGated tells of a kernel that may keep every call of bpf(2) from processes
// without CAP_BPF, those on their own descriptors too: before 5.19 (commit
// c8644cd0efe7), where kernel.unprivileged_bpf_disabled is set, as distributions do.
func bpfGated(release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major < 5 || major == 5 && minor < 19
}

// notRoots tells of a directory that root has no right of its own to change:
// there, audit log and socket need more.
func notRoots(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) != nil || st.Uid != 0
}
