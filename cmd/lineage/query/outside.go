//go:build linux

package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// mostAncestors bounds a chain of parents that changes while it is read.
const mostAncestors = 1024

// Outsiders is the processes of a host.
type Outsiders struct {
	Proc procfs.FS // where procfs is mounted
	Run  string    // where services leave their PID files
}

var ThisHost = Outsiders{Proc: "/proc", Run: "/run"}

// Ancestors gives the parents of a process as the kernel has them now, its own parent
// first.
func (h Outsiders) Ancestors(pid int) (all []api.Process) {
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
func (h Outsiders) process(s *procfs.Stat) api.Process {
	argv, cut := h.Proc.Cmdline(s.PID)
	p := api.Process{
		Ref: api.Ref{PID: int(s.PID)}, Comm: s.Comm, Exe: h.Proc.Link(s.PID, "exe"),
		Argv: procfs.SplitArgv(argv), ArgvTruncated: cut,
		Cgroup: h.Proc.Cgroup(s.PID), State: api.StateLive, Task: string(rune(s.State)),
		RSSBytes: h.rss(s.PID),
	}
	if status, err := h.Proc.Status(s.PID); err == nil {
		p.UID = new(int(status.UIDs[1]))
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) == nil {
		p.Started = new(time.Now().Add(time.Duration(s.Start)*procfs.Tick - time.Duration(now.Nano())))
	}
	return p
}

// rss is the resident memory of a process, 0 if it is not known.
func (h Outsiders) rss(pid uint32) uint64 {
	var size, resident uint64 // in pages
	b, _ := h.Proc.Read(pid, "statm", procfs.MaxFile)
	_, _ = fmt.Sscan(string(b), &size, &resident)
	return resident * uint64(os.Getpagesize())
}

// readTime bounds the reading of what orphans hold: a process that does not answer takes up to 2 s.
const readTime = 10 * time.Second

// Orphans returns the children of PID 1 that belong to no service of the host and hold a
// deleted directory or a terminal that is gone, or whose tree holds a port; and what could
// not be read. In a container PID 1 is another process.
func (h Outsiders) Orphans(ctx context.Context) (orphans []text.HostOrphan,
	unknown []string, err error) {
	if ns, err := h.Proc.PIDNamespace(uint32(os.Getpid())); err == nil &&
		ns != procfs.InitPIDNamespace {
		return nil, nil, &cli.Error{Code: api.ExitUnsupported, Err: tracer.ErrPIDNamespace}
	}
	children, err := h.Proc.ByParent()
	if err != nil {
		return nil, nil, err
	}
	services := h.pidFiles()
	var ids []tracer.Identity
	of := make(map[uint32]int) // the orphan in whose tree a process is
	for i := range children[1] {
		s := &children[1][i]
		p := h.process(s)
		if service(p.Cgroup) || services[s.PID] || s.Zombie() {
			continue
		}
		o := text.HostOrphan{Process: p}
		if dir, ok := strings.CutSuffix(h.Proc.Link(s.PID, "cwd"), gone); ok {
			o.DeletedDir = dir
		}
		o.Terminal = h.deadTerminal(s.PID)
		for _, id := range h.tree(s, p.Cgroup, children) {
			ids, of[id.PID] = append(ids, id), len(orphans)
		}
		orphans = append(orphans, o)
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	held := holdings.NewReader(string(h.Proc), h.identify).Of(ctx, ids)
	for i := range held.Ports {
		at, ok := of[held.Ports[i].Holder.PID]
		if !ok || held.Ports[i].Proto == "unix" {
			continue
		}
		p := held.Ports[i].Document()
		p.StartNS = 0 // /proc has it in clock ticks only
		if !slices.ContainsFunc(orphans[at].Ports, func(q api.Port) bool { return same(&p, &q) }) {
			orphans[at].Ports = append(orphans[at].Ports, p)
		}
	}
	return slices.DeleteFunc(orphans, func(o text.HostOrphan) bool { return !o.Holds() }), held.Unknown, nil
}

// same reports whether two are one port: a server and its workers share it.
func same(p, q *api.Port) bool {
	return p.Proto == q.Proto && p.Addr == q.Addr && p.Port == q.Port && p.Netns == q.Netns
}

// tree is an orphan and its descendants. What runs in a terminal that the tree serves
// is in use, as in tmux; and what runs in another cgroup is managed, as the services
// of a user's systemd.
func (h Outsiders) tree(orphan *procfs.Stat, cgroup string,
	children map[uint32][]procfs.Stat) []tracer.Identity {
	all := []tracer.Identity{identity(orphan)}
	for next := 0; next < len(all); next++ {
		for i := range children[all[next].PID] {
			s := &children[all[next].PID][i]
			if (s.TTY == 0 || s.TTY == orphan.TTY) && h.Proc.Cgroup(s.PID) == cgroup {
				all = append(all, identity(s))
			}
		}
	}
	return all
}

// gone is the kernel's suffix for the name of a removed file.
const gone = " (deleted)"

// deadTerminal is the terminal of a process's streams, if that terminal is gone.
func (h Outsiders) deadTerminal(pid uint32) string {
	for fd := range 3 {
		if tty, ok := strings.CutSuffix(h.Proc.Link(pid, fmt.Sprintf("fd/%d", fd)), gone); ok &&
			strings.HasPrefix(tty, "/dev/pts/") {
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
func (h Outsiders) pidFiles() map[uint32]bool {
	all := make(map[uint32]bool)
	for _, pattern := range []string{"*.pid", "*/*.pid", "*/pid"} {
		files, _ := filepath.Glob(filepath.Join(h.Run, pattern))
		for _, file := range files {
			if pid, err := pidFile(file); err == nil {
				all[pid] = true
			}
		}
	}
	return all
}

// errOpenToAll: any user may have made the file, as in /run/lock.
var errOpenToAll = errors.New("any user may write to its directory")

const maxPIDFile = 64

// pidFile reads a PID file of a service. Other users may have put anything there.
func pidFile(path string) (uint32, error) {
	dir, err := os.Stat(filepath.Dir(path))
	if err == nil && dir.Mode().Perm()&0o002 != 0 {
		err = errOpenToAll
	}
	if err != nil {
		return 0, err
	}
	f, err := procfs.OpenRegular(path, 0, func(*unix.Stat_t) error { return nil })
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPIDFile))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	return uint32(pid), err
}

func identity(s *procfs.Stat) tracer.Identity { return tracer.Identity{PID: s.PID, Start: s.Start} }

func (h Outsiders) identify(pid uint32) (tracer.Identity, error) {
	s, err := h.Proc.Stat(pid)
	return identity(&s), err
}
