//go:build linux

package enforcer

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// reason returns why a condemned member is still there. It is for people: procfs may be
// out of date, and no decision depends on it.
func (e *Enforcer) reason(p *tracer.Process) string {
	state := e.taskState(p.PID)
	status, _ := e.proc.Status(p.PID)
	switch {
	case p.Flags&tracer.FlagProtected != 0:
		return "protected"
	case p.Dead:
		return "exiting" + e.wchan(p.PID)
	case e.frozen(p.PID): // before state D, which a cgroup v1 freezer shows
		return "frozen"
	case status.CoreDumping: // before state D, in which the dump is written
		return "writing a core dump" + e.wchan(p.PID)
	case state == 'D':
		return "state D" + e.wchan(p.PID)
	// A pending SIGKILL that lineage did not send counts, too. A process that is
	// already exiting as a group, on its own or by another signal, gets none.
	case p.Flags&tracer.FlagKilled == 0 && status.Pending&(1<<(unix.SIGKILL-1)) == 0:
		return "not signalled" + e.tracedBy(status.Tracer)
	}
	return "SIGKILL pending" + e.wchan(p.PID) + e.tracedBy(status.Tracer)
}

// tracedBy returns the process that traces the leader, as ", traced by PID NAME": a tracer can
// hold up even a killed process (PTRACE_O_TRACEEXIT).
func (e *Enforcer) tracedBy(pid uint32) string {
	if pid == 0 {
		return ""
	}
	return strings.TrimRight(fmt.Sprintf(", traced by %d %s", pid, e.read(pid, "comm")), " \n")
}

// taskState is the state letter of the group's leader, 0 if unknown.
func (e *Enforcer) taskState(pid uint32) byte {
	stat, _ := e.proc.Stat(pid)
	return stat.State
}

// wchan is the kernel function that the leader sleeps in, as " (name)".
func (e *Enforcer) wchan(pid uint32) string {
	name := strings.TrimSpace(e.read(pid, "wchan"))
	if name == "" || name == "0" {
		return ""
	}
	return " (" + name + ")"
}

// frozen reports whether a task is in a freezer; a v1 freezer holds even a killed one.
func (e *Enforcer) frozen(pid uint32) bool {
	name := strings.TrimSpace(e.read(pid, "wchan"))
	return name == "__refrigerator" || name == "do_freezer_trap"
}

// read returns the text of a file of a process, "" if it cannot be read.
func (e *Enforcer) read(pid uint32, file string) string {
	b, _ := e.proc.Read(pid, file, procfs.MaxFile)
	return string(b)
}
