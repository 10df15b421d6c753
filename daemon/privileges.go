//go:build linux

package daemon

import (
	"path/filepath"

	"github.com/lineage-ebpf/lineage/daemon/privilege"
	"golang.org/x/sys/unix"
)

// needed are the capabilities of a daemon that serves. What it does to BPF it
// does through descriptors that it holds, which the kernel checked when they
// were opened: to run a program, to make an iterator, to read a map, to attach
// the closer of level 2 and to remove pins takes none.
var needed = []privilege.Capability{privilege.Kill, privilege.Ptrace, privilege.ReadSearch}

// privileges is what the daemon may do, and why that is more than it needs.
type privileges struct {
	held []string
	err  error
}

// giveUp drops what is not needed any more: everything is loaded, attached,
// opened and listened on. A daemon that cannot is no worse than one that never
// tried, and says so in its status.
func (s *server) giveUp(drop func(...privilege.Capability) error, i instance) {
	if drop == nil {
		return
	}
	keep := needed
	if notRoots(filepath.Dir(i.socket)) {
		keep = append(keep[:len(keep):len(keep)], privilege.WriteAnywhere)
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
	s.log.Info().Strs(keyCapabilities, held).Msg("privileges given up")
}

// notRoots tells of a directory that root has no right of its own to change:
// there, audit log and socket need more.
func notRoots(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) != nil || st.Uid != 0
}
