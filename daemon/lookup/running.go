//go:build linux

package lookup

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// isGone reports whether procfs no longer has a process.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// read reads what procfs shows of a process.
func (f *Finder) read(pid uint32) (stat procfs.Stat, st procfs.Status, err error) {
	if stat, err = f.o.Proc.Stat(pid); err == nil {
		st, err = f.o.Proc.Status(pid)
	}
	return stat, st, err
}

// Running is a process that is not a zombie, as procfs shows it.
type Running struct {
	ID     tracer.Identity
	Parent uint32
	UIDs   []uint32 // real, effective, saved, filesystem
}

// ForeignTo finds a uid of the process that the caller may not act for.
func (p *Running) ForeignTo(c access.Caller) (uid uint32, found bool) {
	for _, uid := range p.UIDs {
		if c.UID != 0 && uid != c.UID {
			return uid, true
		}
	}
	return 0, false
}

// Running reads the process that a ref names. The identity is taken before procfs is
// read and confirmed after it, so that both are of one process.
func (f *Finder) Running(ref api.Ref) (p Running, err error) {
	pid := uint32(ref.PID)
	p.ID, err = f.o.Kernel.Identify(pid)
	switch {
	case errors.Is(err, tracer.ErrNotFound) && pid == 1: // some kernels hide it from iterators
		return p, api.NewError(api.CodeGuarded, "pid 1 is the host's init: it is never adopted", "")
	case errors.Is(err, tracer.ErrNotFound):
		return p, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: no such process", pid), "")
	case err != nil:
		return p, fmt.Errorf("identify pid %d: %w", pid, err)
	case ref.StartNS != 0 && uint64(ref.StartNS) != p.ID.Start:
		return p, OtherProcess(ref)
	}
	stat, st, err := f.read(pid)
	if isGone(err) {
		return p, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d has exited", pid), "")
	}
	if err != nil {
		return p, fmt.Errorf("read pid %d: %w", pid, err)
	}
	if now, err := f.o.Kernel.Identify(pid); err != nil || now != p.ID {
		return p, OtherProcess(ref)
	}
	if stat.State == 'Z' || stat.State == 'X' {
		return p, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d has exited", pid), "")
	}
	p.Parent, p.UIDs = stat.Parent, st.UIDs
	return p, nil
}
