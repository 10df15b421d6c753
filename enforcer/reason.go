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
)

// reason says why a condemned member is still there. It is for people: what
// procfs tells may be out of date, and nothing is decided by it.
func (e *Enforcer) reason(p *tracer.Process) string {
	state := e.taskState(p.PID)
	switch {
	case p.Flags&tracer.FlagProtected != 0:
		return "protected"
	case p.Dead:
		return "exiting" + e.wchan(p.PID)
	case e.frozen(p.PID): // before state D, which a version 1 freezer shows
		return "frozen"
	case state == 'D':
		return "state D" + e.wchan(p.PID)
	case p.Flags&tracer.FlagKilled == 0:
		return "not signalled" + e.tracer(p.PID)
	}
	return "SIGKILL pending" + e.wchan(p.PID) + e.tracer(p.PID)
}

// tracer is who traces the leader, as ", traced by PID NAME": it can hold up even
// who was killed (PTRACE_O_TRACEEXIT).
func (e *Enforcer) tracer(pid uint32) string {
	_, after, _ := strings.Cut(string(e.read(pid, "status")), "\nTracerPid:")
	line, _, _ := strings.Cut(after, "\n")
	by, err := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
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
