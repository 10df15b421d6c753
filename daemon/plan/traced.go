//go:build linux

package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer"
)

// A tracer can delay the exit of a process (PTRACE_O_TRACEEXIT), and its death can kill
// the processes that it traces (PTRACE_O_EXITKILL). The kernel does not show which of
// these it has set: a plan names both sides.

// maxTraced bounds how many traced processes are named for one tracer.
const maxTraced = 8

// tracedBy names the process that traces another one, "" if there is none.
func (p *Planner) tracedBy(pid uint32) string {
	st, err := p.o.Proc.Status(pid)
	if err != nil || st.Tracer == 0 {
		return ""
	}
	return p.named(st.Tracer)
}

// named is a PID with the present name of its process.
func (p *Planner) named(pid uint32) string {
	st, err := p.o.Proc.Status(pid)
	if err != nil {
		return fmt.Sprint(pid)
	}
	return fmt.Sprintf("%d %s", st.TGID, st.Name)
}

// outsiders are the outsiders that members trace, by the PID of the tracer. It reads all
// processes of the host, as long as ctx allows.
func (p *Planner) outsiders(ctx context.Context, members []tracer.Process) (map[uint32][]string, error) {
	names, err := os.ReadDir(string(p.o.Proc))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	is := func(pid uint32) bool {
		return slices.ContainsFunc(members, func(m tracer.Process) bool { return m.PID == pid })
	}
	traced := make(map[uint32][]string)
	for _, name := range names {
		if ctx.Err() != nil {
			return traced, errors.New("the search for traced processes timed out")
		}
		pid, err := strconv.ParseUint(name.Name(), 10, 32)
		if err != nil {
			continue
		}
		st, err := p.o.Proc.Status(uint32(pid))
		if err != nil || st.Tracer == 0 || is(uint32(pid)) {
			continue
		}
		if by, err := p.o.Proc.Status(st.Tracer); err == nil && is(by.TGID) { // one of its threads traces
			traced[by.TGID] = append(traced[by.TGID], fmt.Sprintf("%d %s", pid, st.Name))
		}
	}
	return traced, nil
}

// tracing adds to a plan's reason what tracing means for the end of a process.
func tracing(reason, by string, traces []string) string {
	var all []string
	if reason != "" {
		all = append(all, reason)
	}
	if by != "" {
		all = append(all, "traced by "+by+", which may delay its exit")
	}
	if n := len(traces); n > 0 {
		if n > maxTraced {
			traces = append(traces[:maxTraced:maxTraced], fmt.Sprintf("%d more", n-maxTraced))
		}
		all = append(all, "it traces "+strings.Join(traces, ", ")+" outside the session, which may die with it")
	}
	return strings.Join(all, "; ")
}
