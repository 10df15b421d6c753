//go:build linux

package supervise

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const proc = procfs.FS("/proc")

// family is the processes that init is responsible for.
type family interface {
	// signal sends sig to all of them once. A process born meanwhile may miss it.
	signal(sig unix.Signal)
	// list returns those that /proc shows, zombies included.
	list() []procfs.Stat
	// empty reports, by the kernel's own count, whether no process is left. childless:
	// a wait just now found no child.
	empty(childless bool) bool
	// scope says what the family leaves out; "" nothing.
	scope() string
}

// namespace is the whole PID namespace of which we are PID 1.
type namespace struct{}

// signal is atomic: kill(2) of -1 holds the task list's lock and finds every process of the namespace and of nested
// ones but the caller; a fork that it interrupts does not take place (copy_process in kernel/fork.c).
func (namespace) signal(sig unix.Signal) {
	if os.Getpid() == 1 { // anywhere else it would be the whole host
		unix.Kill(-1, sig)
	}
}

func (namespace) list() []procfs.Stat {
	all, _ := proc.Stats() // none if /proc is gone: see empty
	return slices.DeleteFunc(all, func(p procfs.Stat) bool { return p.PID == 1 })
}

// empty asks the kernel too: a process that entered the namespace from outside is not
// our child.
func (namespace) empty(childless bool) bool {
	return childless && os.Getpid() == 1 && errors.Is(unix.Kill(-1, 0), unix.ESRCH)
}

func (namespace) scope() string { return "" }

// descendants is our children and theirs. We are a subreaper, so no process leaves this
// set; but a process that another daemon started for one was never in it.
type descendants struct{}

// signal signals children by PID, which cannot be reused until we reap them, and deeper
// descendants by pidfd, see [walk.below]. The tree changes while it is read, so it is
// read again to find those that were missed.
func (descendants) signal(sig unix.Signal) {
	w := walk{sig: sig, sent: make(map[uint32]uint64)}
	for range maxWalks {
		if !w.pass() {
			return
		}
	}
}

const (
	// maxWalks limits the passes over a tree that grows as fast as it is read.
	maxWalks = 8
	// maxDepth limits the descriptors that a pass has open. Deeper processes move up
	// when those above them are dead.
	maxDepth = 200
)

// walk sends a signal to each descendant, once.
type walk struct {
	sig      unix.Signal
	sent     map[uint32]uint64 // start by PID
	byParent map[uint32][]procfs.Stat
}

// pass reports whether it found a new process.
func (w *walk) pass() (found bool) {
	w.byParent, _ = proc.ByParent()
	for _, child := range w.byParent[uint32(os.Getpid())] {
		if w.first(child) {
			found = true
			unix.Kill(int(child.PID), w.sig) // still our child: only we could have reaped it
		}
		if w.below(child.PID, -1, 0) {
			found = true
		}
	}
	return found
}

// below signals the descendants of parent. parentFD holds the parent; -1 for our child, whose PID cannot be reused.
// Each pidfd is opened first, then the parent is read, then checked to be alive: a PID that was reused meanwhile has
// another parent.
func (w *walk) below(parent uint32, parentFD, depth int) (found bool) {
	if depth == maxDepth {
		return false
	}
	for _, p := range w.byParent[parent] {
		fd, err := unix.PidfdOpen(int(p.PID), 0)
		if err != nil {
			continue
		}
		now, err := proc.Stat(p.PID)
		if err == nil && now.Parent == parent && now.Start == p.Start &&
			(parentFD < 0 || !procfs.Exited(parentFD)) {
			if w.first(p) {
				found = true
				_ = unix.PidfdSendSignal(fd, w.sig, nil, 0) // it may be dead by now
			}
			if w.below(p.PID, fd, depth+1) {
				found = true
			}
		}
		unix.Close(fd)
	}
	return found
}

// first reports whether p has not had the signal yet.
func (w *walk) first(p procfs.Stat) bool {
	if start, ok := w.sent[p.PID]; ok && start == p.Start {
		return false
	}
	w.sent[p.PID] = p.Start
	return true
}

func (descendants) list() []procfs.Stat {
	children, _ := proc.ByParent()
	self := uint32(os.Getpid())
	all, seen := children[self], map[uint32]bool{self: true}
	for i := 0; i < len(all); i++ {
		if pid := all[i].PID; !seen[pid] { // entries read at different times may not form a tree
			seen[pid] = true
			all = append(all, children[pid]...)
		}
	}
	return all
}

func (descendants) empty(childless bool) bool { return childless }

func (descendants) scope() string { return "of what descends from the command; " + unknownToSubreaper }
