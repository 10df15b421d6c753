package html

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/api/past"
)

// Limits of what is kept of members, and of what they choose.
const (
	maxMembers = 1 << 17  // processes
	maxText    = 16 << 20 // bytes of text, of which the commands have most
	maxCommand = 16 << 10 // bytes of a command
	maxShort   = 200      // bytes of a command, when the text is used up
	maxEarlier = 4        // programs that a process ran before the last one
	maxName    = 256      // bytes of other texts
)

// process is a member.
type process struct {
	ref     api.Ref
	creator *process // nil: it is not on the page
	command string   // as it can be shown
	comm    string
	earlier []string // commands before this one
	about   *about   // what is unusual about it; nil: nothing
	exe     string
	execed  bool // command is its own, not its creator's
	uid     int  // -1: not known
	calls   string
	session string // of a nested session
	trace   string
	adopter int // PID of the new parent

	dead bool
	end  uint64 // ns
	last last

	outcome *api.Outcome // of the receipt; nil: it is not there
	kept    int          // processes on the page that it created
	dropped int          // processes that it created, and those below, that are not on the page
	waits   bool         // it leaves the page after the last process that it created
}

// last is what the kernel reported of the end of a process.
type last struct {
	how    string // it ended
	bad    bool   // it died of a signal, or its exit code is not 0
	cpu    float64
	memory uint64 // bytes
}

// about is what is seldom known of a process.
type about struct {
	inside    int // PID in its namespace
	container string
	evidence  string
}

// members are the processes of the session that the page shows.
type members struct {
	redact  func(argv []string) []string
	all     map[api.Ref]*process
	dead    []*process // in the order of their deaths, those that are still on the page
	dropped int        // were on the page
	unseen  int        // never were
	texts   map[string]string
	used    int // bytes of texts
}

func (m *members) get(ref api.Ref) *process { return m.all[ref] }

// start is when a process was forked, in ns of boottime.
func (x *process) start() uint64 { return uint64(x.ref.StartNS) }

// born adds a process; nil: there are too many that live.
func (m *members) born(doc *api.Process) *process {
	if !m.room() {
		m.unseen++
		return nil
	}
	x := &process{ref: doc.Ref, uid: -1, comm: m.intern(display.Text(doc.Comm))}
	// A creator is older than the process. A record that says otherwise is wrong, and could close a loop.
	if doc.Creator != nil && past.Compare(*doc.Creator, doc.Ref) < 0 {
		x.creator = m.all[*doc.Creator]
	}
	if c := x.creator; c != nil {
		c.kept++
		x.uid = c.uid
		if len(doc.Argv) == 0 && c.comm == x.comm { // until it execs
			x.command, x.exe = c.command, c.exe
		}
	}
	if e := doc.Evidence; doc.NSPID != 0 || doc.Container != nil || e != nil && e.Kind != "fork" && e.Kind != "root" {
		x.about = &about{inside: doc.NSPID, container: m.name(doc.Container.String())}
		if e != nil {
			x.about.evidence = m.name(display.Evidence(e))
		}
	}
	m.runs(x, doc)
	m.all[x.ref] = x
	return x
}

// exec notes another program of a process.
func (m *members) exec(x *process, doc *api.Process) {
	if x.execed && len(x.earlier) < maxEarlier {
		x.earlier = append(x.earlier, x.command)
	}
	x.command, x.comm, x.exe = "", m.intern(display.Text(doc.Comm)), ""
	m.runs(x, doc)
}

// runs notes what a process runs.
func (m *members) runs(x *process, doc *api.Process) {
	limit := maxCommand
	if m.used > maxText {
		limit = maxShort
	}
	show := func(argv []string) string {
		return m.intern(clip(display.Command(api.Unwrapped(argv), doc.Comm, doc.ArgvTruncated, limit), limit))
	}
	if m.redact != nil && len(doc.Argv) > 0 {
		x.command, x.execed = show(m.redact(doc.Argv)), true
	} else if x.command == "" {
		x.command = show(nil)
	}
	if doc.Exe != "" {
		x.exe = m.name(doc.Exe)
	}
	if doc.UID != nil {
		x.uid = *doc.UID
	}
}

func (m *members) name(text string) string { return m.intern(clip(display.Text(text), maxName)) }

// intern is a text that is kept once.
func (m *members) intern(text string) string {
	if text == "" {
		return ""
	}
	if known, ok := m.texts[text]; ok {
		return known
	}
	if m.texts == nil || m.used > maxText && len(m.texts) > maxMembers {
		m.texts = make(map[string]string) // what it had is kept by the processes
	}
	m.texts[text] = text
	m.used += len(text) + int(unsafe.Sizeof(text))
	return text
}

// died notes that a process may leave the page, if room is needed.
func (m *members) died(x *process) { m.dead = append(m.dead, x) }

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
		delete(m.all, x.ref)
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
	return slices.SortedFunc(maps.Values(m.all), func(a, b *process) int { return past.Compare(a.ref, b.ref) })
}

// exited says how a process ended, as the kernel reported it.
func (x *process) exited() string {
	if !x.dead {
		return "its end was not seen"
	}
	return x.last.how
}
