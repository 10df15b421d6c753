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
		if t.known(p.Ref) == nil {
			t.born(at, p, "fork")
			t.alive()
		}
	case api.EventExec:
		t.exec(at, p)
	case api.EventExit:
		t.exit(at, p)
	case api.EventReaped:
		if m := t.known(p.Ref); m != nil {
			t.forget(m, at)
		}
	case api.EventReparent:
		about := notes{}
		if ev.To != nil {
			about["new parent"] = ev.To.PID
		}
		t.note(at, p, "orphan", "new parent", about)
	case api.EventTrace:
		about := notes{}
		about.claims(p)
		if p.Trace != nil {
			t.note(at, p, "trace", "trace context", about)
		}
	case api.EventListen, api.EventUnlisten:
		what := string(ev.Type)
		if ev.Port != nil {
			what += " " + display.Port(ev.Port)
		}
		t.note(at, p, "port", what, notes{})
	case api.EventStop, api.EventContinue, api.EventCrossing:
		t.note(at, p, "signal", string(ev.Type)+": "+display.About(ev), notes{})
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
	if t.known(p.Ref) == nil {
		t.born(at, p, "image")
	}
	if p.State == api.StateLive {
		t.alive()
		return
	}
	end := at
	if p.Exited != nil && p.Started != nil {
		end += uint64(max(p.Exited.Sub(*p.Started), 0))
	}
	t.exit(end, p) // keep it: it may have created others
}

// born begins the track of a process, and draws an arrow to it from its creator.
func (t *Trace) born(at uint64, p *api.Process, category string) {
	var creator *member
	if p.Creator != nil {
		creator = t.known(*p.Creator)
	}
	m := t.join(at, p)
	arrow := creator != nil && creator.image != ""
	if arrow {
		at = creator.clock(at)
		t.emit(event{Phase: arrowFrom, At: ns(at), Track: creator.track, Category: "fork", Name: "fork", ID: m.track})
	}
	t.begin(m, at, t.image(p), category, t.about(p))
	if arrow {
		t.emit(event{Phase: arrowTo, Binding: "e", At: ns(at), Track: m.track, Category: "fork", Name: "fork", ID: m.track})
	}
}

func (t *Trace) exec(at uint64, p *api.Process) {
	m := t.member(at, p)
	if t.image(p) != m.image {
		t.rename(m.track, t.label(p))
	}
	t.end(m, at, nil)
	t.begin(m, at, t.image(p), "image", t.about(p))
}

func (t *Trace) exit(at uint64, p *api.Process) {
	m := t.member(at, p)
	if m.dead {
		return
	}
	about := notes{}
	switch {
	case p.Signal != "":
		about.say("killed by", p.Signal)
		t.mark(m.clock(at), m.track, "signal", p.Signal, nil)
	case p.ExitCode != nil:
		about["exit code"] = *p.ExitCode
	}
	if p.Killer != nil {
		about.say("signal", display.Sender(p.Killer, p.Ref))
	}
	if p.RSSBytes != 0 {
		about.say("peak memory", display.Size(p.RSSBytes))
	}
	if p.CPUSeconds != 0 {
		about.say("cpu", display.CPU(p.CPUSeconds))
	}
	t.end(m, at, about)
	m.dead = true
	t.live--
	t.alive()
	if root := t.session.Root; root != nil && root.Ref == p.Ref && !t.ending {
		t.leftovers(at)
	}
}

// leftovers marks the members that are alive when the root has exited.
func (t *Trace) leftovers(at uint64) {
	for _, m := range t.inOrder() {
		if !m.dead {
			t.mark(m.clock(at), m.track, "leftover", "left over", nil)
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
	} else if ev.State != api.StateActive && ev.Reason != "root_exit" {
		t.ending = true
	}
	about := notes{}
	about.say("state", string(ev.State))
	about.say("reason", ev.Reason)
	t.mark(t.now, sessionTrack, "end", name, about)
}

// note marks something on a process.
func (t *Trace) note(at uint64, p *api.Process, category, name string, about notes) {
	if m := t.known(p.Ref); m != nil {
		t.mark(m.clock(at), m.track, category, name, about)
		return
	}
	about["pid"] = p.PID // reaped: its socket has outlived it
	t.mark(t.now, sessionTrack, category, name, about)
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
		t.describe(gapTrack, "missing events")
	}
	from := max(cmp.Or(g.since, at), t.gapEnd)
	t.gapEnd = max(at, from+1) // visible, and not before its own beginning
	name := "events missing: " + g.where
	if g.count > 0 {
		name = fmt.Sprintf("%d events missing: %s", g.count, g.where)
	}
	t.emit(event{Phase: sliceBegin, At: ns(from), Track: gapTrack, Category: "gap", Name: name})
	t.emit(event{Phase: sliceEnd, At: ns(t.gapEnd), Track: gapTrack, Name: name})
}

// receipt adds how the session ended.
func (t *Trace) receipt(r *api.Report) {
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Outcome == api.OutcomeLeft || p.Outcome.Moved() {
			about := notes{}
			about.say("why", p.Why)
			t.note(t.now, &api.Process{Ref: p.Ref}, "end", string(p.Outcome), about)
		}
	}
	about := notes{"killed": r.Killed, "left": r.Left}
	about.say("why", r.VerdictWhy)
	about.say("reason", r.EndReason)
	if by := r.EndedBy; by != nil {
		about.say("ended by", display.Caller(by))
	}
	t.mark(t.now, sessionTrack, "end", "receipt: "+string(r.Verdict), about)
}
