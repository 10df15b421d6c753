package html

import (
	"cmp"
	"os"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Limits of what members decide.
const (
	maxCalls = 1000 // tool calls that are listed
	maxPorts = 1000 // sockets that are listed
	maxSteps = 200  // changes of state, and gaps
)

// Page is what the page of one session shows. It is not safe for concurrent use.
type Page struct {
	session *api.Session
	host    string
	members members
	calls   []*call
	byID    map[callKey]*call // the newest of each id
	ports   []*port
	listens map[portKey]*port // that are open
	steps   []step
	more    struct{ calls, ports, steps int } // that are not listed
	gaps    bool                              // events are missing
	clock   clock
	ending  bool   // for another reason than the exit of the root
	rootEnd uint64 // ns; 0: the root is alive, its end was not seen, or the session ended it
}

// clock is the time of the events.
type clock struct {
	now    uint64 // ns of boottime of the newest event
	offset int64  // from boottime to the time of day
	known  bool   // offset is
}

// step is something that happened to the session as a whole.
type step struct {
	at   uint64
	text string
	kind string // a class of style.css
}

// New begins the page of a session. redact hides secrets in arguments; nil leaves arguments out.
func New(s *api.Session, redact func(argv []string) []string) *Page {
	host, _ := os.Hostname() // a page without the name of its host is still true
	return &Page{session: s, host: host, members: members{redact: redact,
		all: make(map[api.Ref]*process)},
		byID: make(map[callKey]*call), listens: make(map[portKey]*port)}
}

// gap notes that nothing was recorded from the newest event to the next one.
func (p *Page) gap(text string) {
	p.gaps = true
	p.step(p.clock.now, text, "gap")
}

func (p *Page) Event(ev *api.Event) {
	switch {
	case ev.Type == api.EventLost:
		what := "events"
		if ev.Count > 0 {
			what = display.Count(int(ev.Count), "event")
		}
		p.clock.tick(uint64(ev.UntilNS), ev.Time)
		p.gap(what + " missing: " + ev.Where)
	case ev.TimeNS == 0:
	default:
		p.clock.tick(uint64(ev.TimeNS), ev.Time)
		p.apply(uint64(ev.TimeNS), ev)
	}
}

func (c *clock) tick(at uint64, wall *time.Time) {
	if at == 0 {
		return
	}
	if wall != nil {
		c.offset, c.known = wall.UnixNano()-int64(at), true
	}
	c.now = max(c.now, at)
}

// wall is the time of day at a boottime; nil: not known.
func (c *clock) wall(at uint64) *time.Time {
	if !c.known {
		return nil
	}
	return new(time.Unix(0, int64(at)+c.offset))
}

func (p *Page) apply(at uint64, ev *api.Event) {
	switch {
	case ev.Type == api.EventSession:
		p.state(at, ev)
	case ev.Type == api.EventMark && ev.Call != nil:
		p.call(at, ev)
	case ev.Process != nil:
		m := p.saw(ev.Process)
		if m != nil && ev.Was != nil && ev.SinceNS != 0 && len(m.earlier) < maxEarlier {
			m.earlier = append(m.earlier, p.members.show(ev.Was))
		}
		if m != nil && ev.To != nil {
			m.adopter = ev.To.PID
		}
		if ev.Port != nil {
			p.port(at, ev)
		}
	}
}

// words say what a state means for the members.
var words = map[api.SessionState]string{
	api.StateActive: "the session begins", api.StateEnding: "its end begins: SIGTERM",
	api.StateCondemned: "SIGKILL to what is left",
	api.StateEnded:     "no member is left",
}

// state notes the progress of the end of this session, or of a nested one.
func (p *Page) state(at uint64, ev *api.Event) {
	text := cmp.Or(words[ev.State], string(ev.State))
	if ev.Session != "" && ev.Session != p.session.ID {
		text = "nested session " + ev.Session + ": " + text
	} else if ev.State != api.StateActive && ev.Reason != "root_exit" {
		p.ending = true
	}
	if ev.Reason != "" && ev.State != api.StateActive {
		text += " (" + ev.Reason + ")"
	}
	p.step(at, text, class(ev.State))
}

func (p *Page) step(at uint64, text, kind string) {
	if len(p.steps) == maxSteps {
		p.more.steps++
		return
	}
	p.steps = append(p.steps, step{at, name(text), kind})
}

// saw takes a process as it is now, or was at its end; nil: there are too many.
func (p *Page) saw(doc *api.Process) *process {
	m := p.members.all[doc.Ref]
	if m == nil {
		if m = p.members.born(doc); m == nil {
			return nil
		}
		for i := range doc.Calls {
			if c := p.byID[keyOf(&doc.Calls[i])]; c != nil {
				c.processes++
			}
		}
	}
	if m.Exited != nil {
		return m
	}
	if p.members.is(m, doc); m.Exited == nil {
		return m
	}
	p.members.dead = append(p.members.dead, m)
	if root := p.session.Root; root != nil && root.Ref == m.Ref {
		if !p.ending {
			p.rootEnd = m.end()
		}
		p.step(m.end(), "its root exits: "+m.exited(), "root")
	}
	return m
}
