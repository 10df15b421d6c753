package html

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Limits of what is kept of members, and of what they choose.
const (
	maxMembers = 1 << 17  // processes
	maxText    = 8 << 20  // bytes of their commands, if all are as long
	maxCommand = 16 << 10 // bytes of a command
	maxShort   = 200      // bytes that a command has, however many there are
	maxEarlier = 4        // programs that a process ran before the last one
	maxName    = 256      // bytes of other texts
)

// process is a member: what the last event says of it, without its arguments.
type process struct {
	api.Process
	creator *process // nil: it is not on the page
	command string   // as it can be shown
	earlier []string // commands before this one
	calls   string
	adopter int // PID of the new parent

	outcome *api.Outcome // of the receipt; nil: it is not there
	kept    int          // processes on the page that it created
	dropped int          // processes that it created, and those below, that are not on the page
	waits   bool         // it leaves the page after the last process that it created
}

// members are the processes of the session that the page shows.
type members struct {
	redact  func(argv []string) []string
	all     map[api.Ref]*process
	dead    []*process // in the order of their deaths, those that are still on the page
	dropped int        // were on the page, or would have been
}

// start is when a process was forked, in ns of boottime.
func (x *process) start() uint64 { return uint64(x.StartNS) }

// end is when its last thread exited; 0: its end was not seen.
func (x *process) end() uint64 {
	if x.Exited == nil {
		return 0
	}
	return x.start() + uint64(max(x.Exited.Sub(*x.Started), 0))
}

// born adds a process; nil: there are too many that live.
func (m *members) born(doc *api.Process) *process {
	if !m.room() {
		m.dropped++
		return nil
	}
	x := new(process)
	// A creator is older than the process. A record that says otherwise is wrong, and could close a loop.
	if doc.Creator != nil && doc.Creator.Compare(doc.Ref) < 0 {
		x.creator = m.all[*doc.Creator]
	}
	if x.creator != nil {
		x.creator.kept++
	}
	m.all[doc.Ref] = x
	return x
}

func (m *members) show(doc *api.Process) string {
	limit := min(max(maxText/max(len(m.all), 1), maxShort), maxCommand)
	return clip(display.Command(api.Unwrapped(m.hidden(doc.Argv)), doc.Comm, doc.ArgvTruncated, limit), limit)
}

// is notes what a process is now. Of what a member chooses not all is kept.
func (m *members) is(x *process, doc *api.Process) {
	uid := cmp.Or(doc.UID, x.UID)
	x.command, x.calls = m.show(doc), clip(display.Calls(doc.Calls), maxName)
	x.Process = *doc
	x.UID, x.Started = uid, cmp.Or(doc.Started, doc.Exited)
	x.Session, x.Exe = name(doc.Session), name(doc.Exe)
	x.Argv, x.FirstArgv, x.Calls = nil, nil, nil
	x.Cgroup, x.Cwd = "", ""
}

// name is a text that a member chooses, as it can be shown.
func name[S ~string](text S) string { return clip(display.Text(text), maxName) }

// room makes room for a process: the one that died first leaves the page.
func (m *members) room() bool {
	for len(m.all) >= maxMembers {
		if len(m.dead) == 0 {
			return false
		}
		x := m.dead[0]
		m.dead = m.dead[1:]
		if x.kept > 0 {
			x.waits = true
			continue
		}
		delete(m.all, x.Ref)
		m.dropped++
		if c := x.creator; c != nil {
			c.dropped += 1 + x.dropped
			if c.kept--; c.kept == 0 && c.waits {
				m.dead = append(m.dead, c)
			}
		}
	}
	return true
}

// sorted are the processes in the order of their starts.
func (m *members) sorted() []*process {
	return slices.SortedFunc(maps.Values(m.all), func(a, b *process) int { return a.Compare(b.Ref) })
}
