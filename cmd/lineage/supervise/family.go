//go:build linux

package supervise

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// family is the processes that init answers for.
type family interface {
	// signal sends sig to all of them once. Who is born meanwhile may miss it.
	signal(sig unix.Signal)
	// list is those that /proc shows, zombies included.
	list() []relative
	// empty tells, by the kernel's own count, whether nobody is left.
	// childless: a wait just now has found no child.
	empty(childless bool) bool
	// scope says what the family leaves out; "" nothing.
	scope() string
}

// namespace is all of the PID namespace that we are PID 1 of.
type namespace struct{}

// signal is atomic: kill(2) of -1 takes the task list's lock, finds every
// process of the namespace and of those below but the caller, and a fork that
// it interrupts does not take place (kill_something_info in kernel/signal.c,
// copy_process in kernel/fork.c).
func (namespace) signal(sig unix.Signal) {
	if os.Getpid() == 1 { // anywhere else it would be the whole host
		unix.Kill(-1, sig)
	}
}

func (namespace) list() []relative {
	var all []relative
	for _, p := range processes() {
		if p.pid != 1 {
			all = append(all, p)
		}
	}
	return all
}

// empty asks the kernel too: who entered the namespace from outside is no
// child of ours.
func (namespace) empty(childless bool) bool {
	return childless && os.Getpid() == 1 && errors.Is(unix.Kill(-1, 0), unix.ESRCH)
}

func (namespace) scope() string { return "" }

// descendants is our children and theirs. We are a subreaper: no process
// leaves them, only what another daemon starts for one was never among them.
type descendants struct{}

// signal signals children by their PIDs, which are theirs until we reap them,
// and what is below by pidfd, see [walk.below]. The tree changes while it is
// read: it is read again for those that were missed.
func (descendants) signal(sig unix.Signal) {
	w := walk{sig: sig, sent: make(map[int]uint64)}
	for range maxWalks {
		if !w.pass() {
			return
		}
	}
}

const (
	// maxWalks bounds the passes over a tree that grows as fast as it is read.
	maxWalks = 8
	// maxDepth bounds the descriptors that a pass has open. Who is deeper is
	// nearer when those above are dead.
	maxDepth = 200
)

// walk sends a signal to each descendant, once.
type walk struct {
	sig      unix.Signal
	sent     map[int]uint64 // start by PID
	byParent map[int][]relative
}

// pass tells whether it found anybody new.
func (w *walk) pass() (found bool) {
	w.byParent = byParent()
	for _, child := range w.byParent[os.Getpid()] {
		if w.first(child) {
			found = true
			unix.Kill(child.pid, w.sig) // our child still: only we could have reaped it
		}
		if w.below(child.pid, -1, 0) {
			found = true
		}
	}
	return found
}

// below signals what descends from parent. parentFD holds the parent, -1 for a
// child of ours, whose PID cannot be another's.
//
// A PID that was read may be another process's by now. So each process is held
// by a pidfd first, then asked for its parent, and then the parent must be
// alive still: then it was the process that we know when the answer was given.
func (w *walk) below(parent, parentFD, depth int) (found bool) {
	if depth == maxDepth {
		return false
	}
	for _, p := range w.byParent[parent] {
		fd, err := unix.PidfdOpen(p.pid, 0)
		if err != nil {
			continue
		}
		now, ok := readProcess(p.pid)
		if ok && now.parent == parent && now.start == p.start && (parentFD < 0 || !procfs.Exited(parentFD)) {
			if w.first(p) {
				found = true
				_ = unix.PidfdSendSignal(fd, w.sig, nil, 0) // it may be dead by now
			}
			if w.below(p.pid, fd, depth+1) {
				found = true
			}
		}
		unix.Close(fd)
	}
	return found
}

// first tells whether p has not had the signal yet.
func (w *walk) first(p relative) bool {
	if start, ok := w.sent[p.pid]; ok && start == p.start {
		return false
	}
	w.sent[p.pid] = p.start
	return true
}

func byParent() map[int][]relative {
	children := make(map[int][]relative)
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	return children
}

func (descendants) list() []relative {
	children := byParent()
	all := children[os.Getpid()]
	seen := map[int]bool{os.Getpid(): true}
	for i := 0; i < len(all); i++ {
		if pid := all[i].pid; !seen[pid] { // what was read one after the other may be no tree
			seen[pid] = true
			all = append(all, children[pid]...)
		}
	}
	return all
}

func (descendants) empty(childless bool) bool { return childless }

func (descendants) scope() string { return "of what descends from the command; " + unknownToSubreaper }
