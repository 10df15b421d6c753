//go:build linux

package enforcer

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// Stuck returns why SIGKILL does not end a process soon, "" if it does. It is for people: procfs may be out of
// date, and no decision depends on it.
func (e *Enforcer) Stuck(p *tracer.Process) string {
	wchan := e.wchan(p.PID)
	status, _ := e.proc.Status(p.PID)
	stat, _ := e.proc.Stat(p.PID)
	switch {
	case p.Flags&tracer.FlagProtected != 0:
		return "protected"
	case p.Dead:
		return "exiting" + wchan
	case wchan == " (__refrigerator)": // before state D, which a cgroup v1 freezer shows
		return "frozen"
	case status.CoreDumping: // before state D, in which the dump is written
		return "writing a core dump" + wchan
	case stat.State == 'D' && wchan != " (kernel_clone)": // that one waits for a vfork, and can be killed
		return "state D" + wchan
	}
	return ""
}

func (e *Enforcer) reason(p *tracer.Process) string {
	status, _ := e.proc.Status(p.PID)
	wchan := e.wchan(p.PID)
	switch why := e.Stuck(p); {
	case why != "":
		return why
	case wchan == " (do_freezer_trap)": // which a SIGKILL ends
		return "frozen"
	// A pending SIGKILL that lineage did not send counts, too. A process that is
	// already exiting as a group, on its own or by another signal, gets none.
	case p.Flags&tracer.FlagKilled == 0 && status.Pending&(1<<(unix.SIGKILL-1)) == 0:
		return "not signalled" + e.tracedBy(status.Tracer)
	}
	return "SIGKILL pending" + wchan + e.tracedBy(status.Tracer)
}

// tracedBy returns the process that traces the leader, as ", traced by PID NAME": a tracer can
// hold up even a killed process (PTRACE_O_TRACEEXIT).
func (e *Enforcer) tracedBy(pid uint32) string {
	if pid == 0 {
		return ""
	}
	return strings.TrimRight(fmt.Sprintf(", traced by %d %s", pid, e.proc.Comm(pid)), " ")
}

// wchan is the kernel function that the leader sleeps in, as " (name)".
func (e *Enforcer) wchan(pid uint32) string {
	name, _ := e.proc.Read(pid, "wchan", procfs.MaxFile)
	if name = bytes.TrimSpace(name); len(name) == 0 || string(name) == "0" {
		return ""
	}
	return fmt.Sprintf(" (%s)", name)
}
