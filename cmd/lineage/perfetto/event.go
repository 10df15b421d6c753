package perfetto

import (
	"cmp"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Event adds a line of the event stream.
func (t *Trace) Event(ev *api.Event) error {
	switch {
	case ev.Kind == "process":
		if ev.Process != nil {
			t.Process(ev.Process)
		}
	case ev.Type == api.EventLost:
		t.lost(ev)
	case ev.TimeNS != 0 && ev.Type != "":
		t.tick(uint64(ev.TimeNS), ev.Time)
		t.fill(uint64(ev.TimeNS))
		t.apply(ev)
	}
	return t.err
}

func (t *Trace) apply(ev *api.Event) {
	at, p := uint64(ev.TimeNS), ev.Process
	if ev.Type == api.EventSession {
		t.state(ev)
		return
	}
	if ev.Type == api.EventMark {
		t.call(at, ev)
		return
	}
	if p == nil {
		return
	}
	switch ev.Type {
	case api.EventFork:
		t.fork(at, p)
	case api.EventExec:
		t.exec(at, p)
	case api.EventExit:
		t.exit(at, p)
	case api.EventReaped:
		if m := t.known(p.Ref); m != nil {
			t.forget(m, at)
		}
	case api.EventReparent:
		var notes []note
		if ev.To != nil {
			notes = []note{{name: "new parent", n: int64(ev.To.PID)}}
		}
		t.mark(at, p, "orphan", "new parent", notes...)
	case api.EventTrace:
		t.mark(at, p, "trace", "trace context", claims(nil, p)...)
	case api.EventListen, api.EventUnlisten:
		what := string(ev.Type)
		if ev.Port != nil {
			what += " " + display.Port(ev.Port)
		}
		t.mark(at, p, "port", what)
	default: // not about a process: see above
	}
}

// Process adds a process that was alive before the events.
func (t *Trace) Process(p *api.Process) {
	if p.StartNS == 0 {
		return
	}
	at := uint64(p.StartNS)
	t.tick(at, p.Started)
	m := t.join(at, p)
	t.begin(m, at, t.image(p), "image", 0, t.about(p)...)
	if p.State == api.StateLive {
		t.count(liveCounter, t.now, float64(t.live))
		return
	}
	end := at
	if p.Exited != nil && p.Started != nil {
		end += uint64(max(p.Exited.Sub(*p.Started), 0))
	}
	t.exit(end, p) // keep it: it may have created others
}

// fork begins the track of a process below its creator's, and draws an arrow to it.
func (t *Trace) fork(at uint64, p *api.Process) {
	if t.known(p.Ref) != nil {
		return
	}
	m := t.join(at, p)
	flow := uint64(0)
	if p.Creator != nil {
		if creator := t.known(*p.Creator); creator != nil && creator != m {
			flow, at = id("fork", p.Ref.String()), creator.clock(at)
			t.emit(&happening{at: at, kind: instant, track: creator.track, category: "fork", name: "fork", begins: flow,
				notes: []note{{name: "child", n: int64(p.PID)}}})
		}
	}
	t.begin(m, at, t.image(p), "fork", flow, t.about(p)...)
	t.count(liveCounter, t.now, float64(t.live))
}

func (t *Trace) exec(at uint64, p *api.Process) {
	m := t.member(at, p)
	if t.image(p) != m.image {
		t.name(m, p)
	}
	t.end(m, at)
	t.begin(m, at, t.image(p), "image", 0, t.about(p)...)
}

func (t *Trace) exit(at uint64, p *api.Process) {
	m := t.member(at, p)
	if m.dead {
		return
	}
	var notes []note
	switch {
	case p.Signal != "":
		notes = []note{{name: "killed by", text: p.Signal}}
		t.emit(&happening{at: m.clock(at), kind: instant, track: m.track, category: "signal", name: p.Signal})
	case p.ExitCode != nil:
		notes = []note{{name: "exit code", n: int64(*p.ExitCode)}}
	}
	if p.RSSBytes != 0 {
		notes = said(notes, "peak memory", display.Size(p.RSSBytes))
	}
	if p.CPUSeconds != 0 {
		notes = said(notes, "cpu", display.CPU(p.CPUSeconds))
	}
	t.end(m, at, notes...)
	m.dead = true
	t.live--
	t.count(liveCounter, t.now, float64(t.live))
	if root := t.session.Root; root != nil && root.Ref == p.Ref {
		t.leftovers(at)
	}
}

// leftovers marks the members that are alive when the root has exited.
func (t *Trace) leftovers(at uint64) {
	for _, m := range t.inOrder() {
		if !m.dead {
			t.emit(&happening{at: m.clock(at), kind: instant, track: m.track, category: "leftover", name: "left over"})
		}
	}
}

// states says what happens to the members in each state of the session.
var states = map[api.SessionState]string{
	api.StateActive: "active", api.StateEnding: "TERM", api.StateCondemned: "KILL", api.StateEnded: "empty",
}

// state marks the progress of the end of this session, or of a nested one.
func (t *Trace) state(ev *api.Event) {
	name := states[ev.State]
	if ev.Session != "" && ev.Session != t.session.ID {
		name += " (session " + ev.Session + ")"
	}
	notes := said(nil, "state", string(ev.State))
	notes = said(notes, "reason", ev.Reason)
	t.emit(&happening{at: t.now, kind: instant, track: t.id("session"), category: "end", name: name, notes: notes})
}

// mark adds an instant to a process.
func (t *Trace) mark(at uint64, p *api.Process, category, name string, notes ...note) {
	m := t.known(p.Ref)
	if m == nil { // reaped: its socket has outlived it
		t.emit(&happening{at: t.now, kind: instant, track: t.id("session"), category: category, name: name,
			notes: append(notes, note{name: "pid", n: int64(p.PID)})})
		return
	}
	t.emit(&happening{at: m.clock(at), kind: instant, track: m.track, category: category, name: name, notes: notes})
}

// lost notes that events are missing. The next event fills in what is not known yet.
func (t *Trace) lost(ev *api.Event) {
	t.fill(t.now)
	t.gap = &gap{where: ev.Where, count: ev.Count, since: uint64(ev.SinceNS)}
	if t.gap.since == 0 {
		t.gap.since = t.now
	}
	if ev.UntilNS != 0 {
		t.tick(uint64(ev.UntilNS), ev.Time)
		t.fill(uint64(ev.UntilNS))
	}
}

// Missing notes that nothing was recorded from the newest event to the next one.
func (t *Trace) Missing(why string) { t.lost(&api.Event{Where: why}) }

// fill shows the gap that ends now as a slice.
func (t *Trace) fill(at uint64) {
	g := t.gap
	if t.gap = nil; g == nil || at == 0 {
		return // nothing is missing, or nothing is known
	}
	if t.gapEnd == 0 {
		t.describe(&track{uuid: t.id("gaps"), parent: t.id("session"), name: "missing events", rank: rankGaps})
	}
	from := max(cmp.Or(g.since, at), t.gapEnd)
	t.gapEnd = max(at, from+1) // visible, and not before its own beginning
	name := "events missing: " + g.where
	if g.count > 0 {
		name = fmt.Sprintf("%d events missing: %s", g.count, g.where)
	}
	t.emit(&happening{at: from, kind: sliceBegin, track: t.id("gaps"), category: "gap", name: name})
	t.emit(&happening{at: t.gapEnd, kind: sliceEnd, track: t.id("gaps")})
}

// receipt adds how the session ended.
func (t *Trace) receipt(r *api.Report) {
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Outcome == api.OutcomeLeft || p.Outcome == api.OutcomeKept {
			t.mark(t.now, &api.Process{Ref: p.Ref}, "end", string(p.Outcome), said(nil, "why", p.Why)...)
		}
	}
	notes := said(nil, "why", r.VerdictWhy)
	notes = said(notes, "reason", r.EndReason)
	if by := r.EndedBy; by != nil {
		notes = said(notes, "ended by", fmt.Sprintf("uid %d, pid %d %s", by.UID, by.PID, by.Comm))
	}
	notes = append(notes, note{name: "killed", n: int64(r.Killed)}, note{name: "left", n: int64(r.Left)})
	t.emit(&happening{at: t.now, kind: instant, track: t.id("session"), category: "end", name: "receipt: " + string(r.Verdict), notes: notes})
}
