// Package past adds up events to the documents of the sessions and processes that they are about.
package past

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// Advance applies a session's event to its document.
func Advance(s *api.Session, ev *api.Event) {
	s.State = ev.State
	s.Name, s.EndReason = cmp.Or(ev.Name, s.Name), cmp.Or(ev.Reason, s.EndReason)
	if s.State == api.StateEnded && s.Ended == nil {
		s.Ended = ev.Time
	}
}

// Processes are processes that live or are dead.
type Processes map[api.Ref]*api.Process

// Apply applies an event of a process, or a line of a snapshot, and returns the process.
func (all Processes) Apply(ev *api.Event) *api.Process {
	p, known := all[ev.Process.Ref]
	if !known {
		p = new(*ev.Process)
		p.State = cmp.Or(p.State, api.StateLive)
		all[p.Ref] = p
	}
	p.Session = cmp.Or(ev.Process.Session, p.Session, ev.Session)
	switch ev.Type {
	case api.EventFork:
		// Until it execs, a process runs its creator's program.
		if c := all.Creator(p); c != nil && p.Argv == nil && p.Comm == c.Comm {
			p.Exe, p.Argv, p.ArgvTruncated = cmp.Or(p.Exe, c.Exe), c.Argv, c.ArgvTruncated
		}
	case api.EventExec:
		p.Comm, p.Exe = cmp.Or(ev.Process.Comm, p.Comm), cmp.Or(ev.Process.Exe, p.Exe)
		p.Argv, p.ArgvTruncated = ev.Process.Argv, ev.Process.ArgvTruncated
	case api.EventExit:
		p.State, p.Exited = cmp.Or(ev.Process.State, api.StateExited), ev.Time
		p.ExitCode, p.Signal, p.Killer, p.Stopped = ev.Process.ExitCode, ev.Process.Signal, ev.Process.Killer, nil
	case api.EventStop:
		p.Stopped = ev.Sent
	case api.EventContinue:
		p.Stopped = nil
	case api.EventReparent:
		p.Parent = ev.To
	case api.EventReaped:
		p.State = api.StateExited
	default: // changes nothing of the process
	}
	return p
}

// Creator is the process that created p, nil if it is not known. It is never younger, so that
// events which no kernel sends cannot make a loop of creators of different ages.
func (all Processes) Creator(p *api.Process) *api.Process {
	if p.Creator == nil || *p.Creator == p.Ref {
		return nil
	}
	if c := all[*p.Creator]; c != nil && c.StartNS <= p.StartNS {
		return c
	}
	return nil
}

// Sorted are the processes in the order of their starts.
func (all Processes) Sorted() []*api.Process {
	return slices.SortedFunc(maps.Values(all), func(a, b *api.Process) int { return Compare(a.Ref, b.Ref) })
}

// Compare orders processes by their starts.
func Compare(a, b api.Ref) int {
	return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.PID, b.PID))
}
