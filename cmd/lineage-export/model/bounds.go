package model

import (
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// The bounds of a model. Members decide how much there is of everything.
const (
	maxProcesses = 1 << 16  // that are alive
	maxDead      = 1 << 12  // for the events that come after an exit
	maxEnded     = 1 << 8   // sessions, likewise
	maxImages    = 1 << 16  // beyond: each process has few creators
	maxText      = 16 << 20 // bytes of their programs; beyond: shortArgv of a command line, and of a path over shortExe its last word
	maxMarks     = 1 << 14  // of all processes; beyond: they are counted
	maxArgs      = 1 << 7   // of one command line
	shortArgv    = 1 << 6   // bytes
	shortExe     = 1 << 8
)

// held is how much is in memory, that which only records have included. The collector counts down:
// images refer to each other, and to those that left the model.
type held struct{ images, text atomic.Int64 }

// share is what one image adds.
type share struct {
	held *held
	text int64
}

func (s share) add(images int64) {
	s.held.images.Add(images)
	s.held.text.Add(images * s.text)
}

func (s share) release() { s.add(-1) }

// bound bounds and counts an image that is new.
func (m *Model) bound(i *record.Image) {
	if !copied(i) {
		i.Argv, i.ArgvTruncated = cut(i.Argv, record.MaxArgv, i.ArgvTruncated)
		if m.held.text.Load()+size(i) > maxText {
			i.Argv, i.ArgvTruncated = cut(i.Argv, shortArgv, i.ArgvTruncated)
			if len(i.Exe) > shortExe {
				i.Exe = strings.Clone(path.Base(i.Exe))
			}
		}
	}
	m.count(i)
}

// count counts an image until nothing refers to it.
func (m *Model) count(i *record.Image) {
	s := share{held: m.held}
	if !copied(i) {
		s.text = size(i)
	}
	s.add(1)
	runtime.AddCleanup(i, share.release, s)
}

// copied: the program is its creator's, and takes no memory of its own.
func copied(i *record.Image) bool { return i.Forked && i.Creator != nil }

func copyProgram(to, from *record.Image) {
	to.Exe, to.Argv, to.ArgvTruncated = from.Exe, from.Argv, from.ArgvTruncated
}

// size is what a program takes.
func size(i *record.Image) int64 {
	n := len(i.Exe)
	for _, a := range i.Argv {
		n += len(a)
	}
	return int64(n)
}

// cut bounds what is remembered of a command line. It is a copy: the rest shall not stay in memory.
func cut(argv []string, room int, already bool) ([]string, bool) {
	if len(argv) > maxArgs {
		argv, already = slices.Clone(argv[:maxArgs]), true
	}
	for i, a := range argv {
		if room -= len(a) + 1; room >= 0 {
			continue
		}
		kept, n := slices.Clone(argv[:i]), max(room+len(a), 0)
		for n > 0 && !utf8.RuneStart(a[n]) {
			n--
		}
		if n > 0 {
			kept = append(kept, strings.Clone(a[:n]))
		}
		return kept, true
	}
	return argv, already
}

// shortened is an image with few of its creators. A chain of processes that fork a
// successor and exit has no end.
func (m *Model) shortened(i *record.Image, depth int) *record.Image {
	short := *i
	short.Depth = depth
	if depth == 0 || i.Creator == nil {
		short.Creator = nil
	} else {
		short.Creator = m.shortened(i.Creator, depth-1)
	}
	m.count(&short)
	return &short
}

// note remembers a mark of a live process.
func (m *Model) note(p *process, e *api.Event) {
	if m.processes[p.Image.Ref] != p || !p.Exited.IsZero() || len(p.marks) == record.MaxMarks || m.marks >= maxMarks {
		p.dropped++
		return
	}
	p.marks = append(p.marks, markOf(e))
	m.marks++
}

// unmark forgets the marks of a process, which a record has now.
func (m *Model) unmark(p *process) {
	m.marks -= len(p.marks)
	p.marks, p.dropped = nil, 0
}

// markOf is an event without its process.
func markOf(e *api.Event) api.Event {
	return api.Event{Type: e.Type, Time: e.Time, State: e.State, Reason: e.Reason, From: e.From, To: e.To, Port: e.Port}
}

// bounded is a session without its lists, which no record needs.
func bounded(d *api.Session) api.Session {
	s := *d
	s.Ports, s.Brokered, s.Degraded = nil, nil, nil
	if d.Root != nil {
		s.Root = new(*d.Root)
		s.Root.FirstArgv = nil
		s.Root.Argv, s.Root.ArgvTruncated = cut(d.Root.Argv, record.MaxArgv, d.Root.ArgvTruncated)
	}
	return s
}

// sameCalls: then the descendants of a tool call share one list of calls.
func sameCalls(a, b []api.Call) bool {
	return slices.EqualFunc(a, b, func(x, y api.Call) bool {
		return x.ID == y.ID && x.Tool == y.Tool && (x.Agent == y.Agent || x.Agent != nil && y.Agent != nil && *x.Agent == *y.Agent)
	})
}
