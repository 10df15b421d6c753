//go:build linux

// Package outside reads from /proc, with the rights of the caller, about processes
// that are in no session.
package outside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// mostAncestors bounds a chain of parents that changes while it is read.
const mostAncestors = 1024

// Host is the processes of a host.
type Host struct {
	Proc procfs.FS // where procfs is mounted
	Run  string    // where services leave their PID files
}

// This is this host.
var This = Host{Proc: "/proc", Run: "/run"}

// Ancestors gives the parents of a process as the kernel has them now, its own parent
// first.
func (h Host) Ancestors(pid int) (all []api.Process) {
	s, err := h.Proc.Stat(uint32(pid))
	for err == nil && s.Parent != 0 && len(all) < mostAncestors {
		parent := s.Parent
		if s, err = h.Proc.Stat(parent); err == nil {
			all = append(all, h.process(&s))
		}
	}
	return all
}

// process is what we may read about a process.
func (h Host) process(s *procfs.Stat) api.Process {
	argv, cut := h.Proc.Cmdline(s.PID)
	p := api.Process{
		Ref: api.Ref{PID: int(s.PID)}, Comm: s.Comm, Argv: procfs.SplitArgv(argv), ArgvTruncated: cut,
		Cgroup: h.Proc.Cgroup(s.PID), State: api.StateLive, Task: string(rune(s.State)), RSSBytes: h.rss(s.PID),
	}
	if status, err := h.Proc.Status(s.PID); err == nil {
		uid := int(status.UIDs[1])
		p.UID = &uid
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) == nil {
		started := time.Now().Add(time.Duration(s.Start)*procfs.Tick - time.Duration(now.Nano()))
		p.Started = &started
	}
	return p
}

// rss is the resident memory of a process, 0 if it is not known.
func (h Host) rss(pid uint32) uint64 {
	b, err := h.Proc.Read(pid, "statm", procfs.MaxFile)
	if err != nil {
		return 0
	}
	words := strings.Fields(string(b))
	if len(words) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// Orphans returns the children of PID 1 that belong to no service of the host and hold a
// port, a deleted directory or a terminal that is gone; and what could not be read. In a
// container PID 1 is another process.
func (h Host) Orphans(ctx context.Context) (orphans []text.HostOrphan, unknown []string, err error) {
	if ns, err := h.Proc.PIDNamespace(uint32(os.Getpid())); err == nil && ns != procfs.InitPIDNamespace {
		return nil, nil, tracer.ErrPIDNamespace
	}
	stats, err := h.children(1)
	if err != nil {
		return nil, nil, err
	}
	services := h.pidFiles()
	var ids []tracer.Identity
	for i := range stats {
		s := &stats[i]
		p := h.process(s)
		if service(p.Cgroup) || services[s.PID] || s.Zombie() {
			continue
		}
		o := text.HostOrphan{Process: p}
		if dir, ok := strings.CutSuffix(h.Proc.Link(s.PID, "cwd"), gone); ok {
			o.DeletedDir = dir
		}
		o.Terminal = h.deadTerminal(s.PID)
		orphans, ids = append(orphans, o), append(ids, identity(s))
	}
	held := resources.New(string(h.Proc), h.identify).Of(ctx, ids)
	for i := range held.Ports {
		port := &held.Ports[i]
		at := slices.IndexFunc(orphans, func(o text.HostOrphan) bool { return o.PID == int(port.Holder.PID) })
		if at >= 0 && port.Proto != "unix" {
			p := document.Port(port)
			p.StartNS = 0 // /proc has it in clock ticks only
			orphans[at].Ports = append(orphans[at].Ports, p)
		}
	}
	orphans = slices.DeleteFunc(orphans, func(o text.HostOrphan) bool {
		return len(o.Ports) == 0 && o.DeletedDir == "" && o.Terminal == ""
	})
	return orphans, held.Unknown, nil
}

// gone is the kernel's suffix for the name of a removed file.
const gone = " (deleted)"

// deadTerminal is the terminal of a process's streams, if that terminal is gone.
func (h Host) deadTerminal(pid uint32) string {
	for fd := range 3 {
		if tty, ok := strings.CutSuffix(h.Proc.Link(pid, fmt.Sprintf("fd/%d", fd)), gone); ok && strings.HasPrefix(tty, "/dev/pts/") {
			return tty
		}
	}
	return ""
}

// service reports whether a cgroup is that of a system service, or of PID 1 itself,
// where PID 1 is systemd.
func service(cgroup string) bool {
	return strings.HasPrefix(cgroup, "/system.slice/") || strings.HasPrefix(cgroup, "/init.scope")
}

// pidFiles are the processes that PID files name: services, where PID 1 is not systemd.
func (h Host) pidFiles() map[uint32]bool {
	all := make(map[uint32]bool)
	for _, pattern := range []string{"*.pid", "*/*.pid", "*/pid"} {
		files, _ := filepath.Glob(filepath.Join(h.Run, pattern))
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil || len(b) > 64 {
				continue
			}
			if pid, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil {
				all[uint32(pid)] = true
			}
		}
	}
	return all
}

// children are the processes with that parent.
func (h Host) children(parent uint32) (all []procfs.Stat, err error) {
	entries, err := os.ReadDir(string(h.Proc))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		if s, err := h.Proc.Stat(uint32(pid)); err == nil && s.Parent == parent {
			all = append(all, s)
		}
	}
	return all, nil
}

func identity(s *procfs.Stat) tracer.Identity { return tracer.Identity{PID: s.PID, Start: s.Start} }

func (h Host) identify(pid uint32) (tracer.Identity, error) {
	s, err := h.Proc.Stat(pid)
	return identity(&s), err
}
