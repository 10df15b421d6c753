//go:build linux

package enforcer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// reason says why a condemned member is still there. It is for people: what
// procfs tells may be out of date, and nothing is decided by it.
func (e *Enforcer) reason(p *tracer.Process) string {
	state, status := e.taskState(p.PID), e.status(p.PID)
	switch {
	case p.Flags&tracer.FlagProtected != 0:
		return "protected"
	case p.Dead:
		return "exiting" + e.wchan(p.PID)
	case e.frozen(p.PID): // before state D, which a version 1 freezer shows
		return "frozen"
	case status["CoreDumping"] == "1": // before state D, in which it writes
		return "writing a core dump" + e.wchan(p.PID)
	case state == 'D':
		return "state D" + e.wchan(p.PID)
	case p.Flags&tracer.FlagKilled == 0 && !killed(status):
		return "not signalled" + e.tracedBy(status)
	}
	return "SIGKILL pending" + e.wchan(p.PID) + e.tracedBy(status)
}

// tracedBy is the process that traces the leader, as ", traced by PID NAME": it can hold up even
// a process that was killed (PTRACE_O_TRACEEXIT).
func (e *Enforcer) tracedBy(status map[string]string) string {
	by, err := strconv.ParseUint(status["TracerPid"], 10, 32)
	if err != nil || by == 0 {
		return ""
	}
	return strings.TrimRight(fmt.Sprintf(", traced by %d %s", by, e.read(uint32(by), "comm")), " \n")
}

// taskState is the state letter of the group's leader, 0 if unknown.
func (e *Enforcer) taskState(pid uint32) byte {
	stat := e.read(pid, "stat")
	// The comm may hold spaces and brackets: the last ")" ends it.
	if i := bytes.LastIndexByte(stat, ')'); i >= 0 && len(stat) > i+2 {
		return stat[i+2]
	}
	return 0
}

// status are the lines of procfs's status by their names.
func (e *Enforcer) status(pid uint32) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(string(e.read(pid, "status"))) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// killed reports a SIGKILL that is pending and not ours. A process that is
// exiting as a group, by itself or by another's signal, is sent none.
func killed(status map[string]string) bool {
	for _, name := range []string{"SigPnd", "ShdPnd"} {
		set, err := strconv.ParseUint(status[name], 16, 64)
		if err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// wchan is the kernel function that the leader sleeps in, as " (name)".
func (e *Enforcer) wchan(pid uint32) string {
	name := strings.TrimSpace(string(e.read(pid, "wchan")))
	if name == "" || name == "0" {
		return ""
	}
	return " (" + name + ")"
}

// frozen reports a task that sits in a freezer; a v1 freezer holds even a
// killed one.
func (e *Enforcer) frozen(pid uint32) bool {
	name := string(bytes.TrimSpace(e.read(pid, "wchan")))
	return name == "__refrigerator" || name == "do_freezer_trap"
}

func (e *Enforcer) read(pid uint32, file string) []byte {
	b, err := os.ReadFile(filepath.Join(e.proc, strconv.FormatUint(uint64(pid), 10), file))
	if err != nil {
		return nil
	}
	return b
}
