//go:build linux

package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// View is the graph and the sessions as they are, valid while the call runs that got
// it. Only the registry makes one, in its goroutine: a function that takes a View runs
// there, and its caller has one.
type View struct{ r *Registry }

// Graph is what may be asked of the graph; only the registry changes it.
type Graph interface {
	Node(id lineage.ID) (lineage.Node, bool)
	ByPID(pid uint32) (lineage.ID, bool)
	Claim(id lineage.ID) (c *lineage.Claim, creator lineage.ID)
	Container(id lineage.ID) *lineage.Container
	Tree(all bool, sessions ...lineage.SessionID) []lineage.Branch
	Count(session lineage.SessionID) lineage.Count
	Members(session lineage.SessionID) iter.Seq[lineage.ID]
	Needed(id lineage.ID) bool
	HasCommand(id lineage.ID) bool
	Stats() lineage.Stats
}

func (v View) Graph() Graph { return v.r.graph }

// Session finds a session that is held, nil if there is none.
func (v View) Session(id tracer.SessionID) *Session { return v.r.sessions[id] }

// Ask finds a session, and asks the kernel if it is not held yet.
func (v View) Ask(id tracer.SessionID) *Session { return v.r.sessionOf(id) }

// Sessions returns all that are held, those that have ended included.
func (v View) Sessions() iter.Seq[*Session] { return maps.Values(v.r.sessions) }

// Sorted returns them, oldest first.
func (v View) Sorted() []*Session {
	return slices.SortedFunc(v.Sessions(), func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.info.Created, b.info.Created), cmp.Compare(a.info.ID, b.info.ID))
	})
}

// Ended returns those that have ended, oldest first.
func (v View) Ended() []*Session { return v.r.ended.All() }

func (v View) Live() int { return len(v.r.sessions) - len(v.r.ended.All()) }

func (v View) Scope(s *Session) access.Scope {
	return access.Scope{UID: s.info.UID, Chain: slices.Collect(v.Chain(s.info.ID)), Name: s.info.Name}
}

// Chain is a session, then those that it is nested in, from the inside out.
func (v View) Chain(id tracer.SessionID) iter.Seq[tracer.SessionID] {
	return func(yield func(tracer.SessionID) bool) {
		for at, depth := id, 0; at != 0 && depth < MaxDepth && yield(at); depth++ {
			s := v.r.sessions[at]
			if s == nil {
				return
			}
			at = s.info.Parent
		}
	}
}

func (v View) Within(id, ancestor tracer.SessionID) bool {
	return slices.Contains(slices.Collect(v.Chain(id)), ancestor)
}

func (v View) Family(id tracer.SessionID) []tracer.SessionID {
	all := []tracer.SessionID{id}
	for i := 0; i < len(all); i++ {
		all = append(all, v.r.nested[all[i]]...)
	}
	return all
}

// Paused is since when a session is paused, or one that it is nested in, boottime; 0: none is.
func (v View) Paused(id tracer.SessionID) uint64 {
	for id := range v.Chain(id) {
		if s := v.r.sessions[id]; s != nil && !s.closed && s.info.Paused != 0 {
			return s.info.Paused
		}
	}
	return 0
}

// Degrade notes once what users must know.
func (v View) Degrade(why string) {
	if c := &v.r.counts; !slices.Contains(c.degraded, why) {
		c.degraded = append(c.degraded, why)
	}
}

func (v View) Degraded() []string { return v.r.counts.degraded }

func (v View) Lost() uint64 { return v.r.counts.lost }

func (v View) Forks() uint64 { return v.r.counts.forks }

// Kernel returns the kernel's counters and its recursion misses, as of the last look.
// These maps are never changed.
func (v View) Kernel() (counters, misses map[string]uint64) {
	return v.r.counts.counters, v.r.counts.misses
}

func (v View) Meter() *Meter { return &v.r.counts.meter }

// Track begins to note which processes change, or stops.
func (v View) Track(on bool) {
	v.r.graph.Track(on)
	v.r.looks.watched = on
}

func (v View) Take(limit int, c *lineage.Changes) { v.r.graph.Take(limit, c) }

// Tx is a View that may change what it shows.
type Tx struct{ View }

// asked notes the caller that asked for the end of a session first, and how many it will end.
func (t Tx) asked(s *Session, by *api.Caller, record *access.AuditCaller) {
	if s.endedBy != nil || s.info.State != tracer.StateActive {
		return
	}
	t.Refresh(s)
	s.receipt.Ending(int(s.info.Live))
	s.endCaller, s.endedBy = record, by
	t.r.view().Save(s)
	t.r.moved(
		s.info.Parent,
		s.info.Root,
		api.Outcome{Outcome: api.OutcomeBranch, Session: s.info.ID.String(),
			Why: fmt.Sprintf("session %v, ended by %s", s.info.ID, display.Caller(by))},
	)
}

// Repaused takes the kernel's word of a session that was paused, or resumed.
func (t Tx) Repaused(s *Session) {
	t.Refresh(s)
	for _, id := range t.Family(s.info.ID) {
		t.Changed(id)
	}
}

// Conclude writes the receipt of a session, if there is a verdict, and no feature asks to wait.
func (t Tx) Conclude(id tracer.SessionID) {
	if s := t.r.sessions[id]; s != nil {
		t.r.conclude(s)
	}
}

// Remember stores what an earlier daemon wrote about a session, before the registry
// meets it.
func (t Tx) Remember(id tracer.SessionID, memory json.RawMessage, nodes []lineage.Node) {
	t.r.memories[id] = memory
	for i := range nodes {
		t.r.graph.Restore(&nodes[i])
	}
}

// Over notes that an earlier daemon gave the last report on a session of which the kernel still has the record.
func (t Tx) Over(id tracer.SessionID) { t.r.looks.unreleased[id] = true }

// Ran adds the command line of a process that the graph has without one.
func (t Tx) Ran(ev *lineage.Event) {
	if t.r.graph.Needed(ev.ID) && !t.r.graph.HasCommand(ev.ID) {
		t.r.graph.Apply(ev)
	}
}

// Contain notes the container of a process, which the graph may not know yet.
func (t Tx) Contain(id lineage.ID, c *lineage.Container) {
	t.r.graph.Contain(id, c)
	if n, ok := t.r.graph.Node(id); ok && n.Session != 0 {
		t.Changed(n.Session)
	}
}

// Apply applies a batch of events, as if the kernel had sent them.
func (t Tx) Apply(batch []tracer.Event) { t.r.apply(batch) }

// Ask calls f in the registry's goroutine, as Read does, and returns its answer.
func Ask[T any](r *Registry, f func(View) T) (answer T, err error) {
	err = r.Read(func(v View) { answer = f(v) })
	return answer, err
}

// AskFor is Ask for a caller, as ReadFor is Read.
func AskFor[T any](r *Registry, c access.Caller, f func(View) T) (answer T, err error) {
	err = r.ReadFor(c, func(v View) { answer = f(v) })
	return answer, err
}

// Change calls f in the registry's goroutine, as Update does, and returns its answer and its error.
func Change[T any](r *Registry, f func(Tx) (T, error)) (answer T, err error) {
	var failed error
	err = r.Update(func(t Tx) { answer, failed = f(t) })
	return answer, cmp.Or(err, failed)
}

// Known is what is known of a session, which may be nothing yet.
func Known[T any](of map[tracer.SessionID]*T, id tracer.SessionID) *T {
	its := of[id]
	if its == nil {
		its = new(T)
		of[id] = its
	}
	return its
}
