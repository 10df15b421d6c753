//go:build linux

package attribution

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Limits for the members of one session.
const (
	maxID, maxTool = 128, 64 // bytes
	maxOpen        = 16      // calls; the oldest ends when there is one more
	maxAgents      = 64      // processes that marks named
	maxMost        = 16      // calls in a receipt
	perSecond      = 20      // marks
	burst          = 100
)

const (
	// lateBirth is how late the event of a birth may come: for this long a call is
	// remembered after its end.
	lateBirth = 10 * time.Second
	// maxSteps bounds the walks up to an agent: from a hook, and from processes that a helper of
	// the agent, such as an MCP server, starts.
	maxSteps = 16
)

// Marks are the claims of all sessions. Mark may be called from any goroutine.
type Marks struct {
	registry.Ground
	policy func() *policy.Policy
	asked  chan program // children of agents that have executed their first program

	// These are of the registry's goroutine.
	books  map[tracer.SessionID]*book
	unread map[tracer.Identity]bool // children of agents that have executed none yet
	number uint32                   // of the last call
}

// NewMarks makes Marks; attach its hooks.
func NewMarks(g registry.Ground, policy func() *policy.Policy) *Marks {
	return &Marks{
		Ground: g, policy: policy, asked: make(chan program, maxWait),
		books: make(map[tracer.SessionID]*book), unread: make(map[tracer.Identity]bool),
	}
}

// book is what was reported in one session. It belongs to the registry's goroutine.
type book struct {
	limit  *rate.Limiter
	agents []tracer.Identity // named by marks, the oldest first
	open   []*lineage.Call   // the oldest first
	past   []*lineage.Call   // ended a moment ago
	most   []*lineage.Call   // that used most CPU time, and the newest
	last   uint64            // boottime of the last mark
}

func (m *Marks) book(id tracer.SessionID) *book {
	b := m.books[id]
	if b == nil {
		b = &book{limit: rate.NewLimiter(perSecond, burst)}
		m.books[id] = b
	}
	return b
}

// Hooks keep the claims with the processes that they are about.
func (m *Marks) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Forked: m.forked,
		Execed: m.execed,
		Exited: func(v registry.View, s *registry.Session, ev *tracer.Event) {
			if claim, _ := v.Graph().Claim(ev.Process); claim != nil && len(claim.Calls) == 1 {
				m.book(s.ID()).uses(claim.Calls[0])
			}
			m.exited(v, s, ev)
		},
		Closed: func(_ registry.View, s *registry.Session) { delete(m.books, s.ID()) },
		Forgotten: func(_ registry.View, s *registry.Session) {
			delete(m.books, s.ID()) // it was dissolved
		},
		Concluding: func(v registry.View, s *registry.Session, r *api.Report) bool {
			if b := m.books[s.ID()]; b != nil {
				r.Calls = documents(v, heaviest(b.most))
			}
			return false
		},
		Describe:   m.describe,
		Persistent: m,
	}
}

// describe notes that a session, or one in it, is not idle: a call is open, or was a while ago.
func (m *Marks) describe(_ registry.View, _ *registry.Session, d *document.Session) {
	now := m.Clock.Boottime()
	for _, id := range d.Family {
		switch b := m.books[id]; {
		case b == nil:
		case len(b.open) > 0:
			d.Used.Idle = 0
		default:
			d.Used.Idle = min(d.Used.Idle, time.Duration(now-min(b.last, now)))
		}
	}
}

// forked notes to which calls a new process may belong. What a process of a call starts belongs
// to that call, whatever else is open.
func (m *Marks) forked(v registry.View, s *registry.Session, ev *tracer.Event) {
	b := m.books[s.ID()]
	m.born(s, b, ev)
	if b == nil || len(b.open)+len(b.past) == 0 {
		return
	}
	claim, above := v.Graph().Claim(ev.Creator)
	agent := ev.Creator
	if !b.named(agent) {
		if claim != nil && len(claim.Calls) > 0 {
			return
		}
		for range maxSteps {
			if agent = above; b.named(agent) || agent.IsZero() {
				break
			}
			_, above = v.Graph().Claim(agent)
		}
	}
	calls := b.during(agent, ev.Time)
	if calls == nil {
		return
	}
	ev.Claim = &lineage.Claim{Calls: calls}
	if claim != nil {
		ev.Claim.Trace = claim.Trace
	}
}

func (b *book) named(id tracer.Identity) bool { return b != nil && slices.Contains(b.agents, id) }

func (b *book) during(agent tracer.Identity, at uint64) (all []*lineage.Call) {
	for _, c := range slices.Concat(b.past, b.open) {
		if c.Agent == agent && c.Began <= at && (c.Ended() == 0 || at < c.Ended()) {
			all = append(all, c)
		}
	}
	return all
}

// exited ends the calls of an agent: nothing else would.
func (m *Marks) exited(_ registry.View, s *registry.Session, ev *tracer.Event) {
	delete(m.unread, ev.Process)
	b := m.books[s.ID()]
	if !b.named(ev.Process) {
		return
	}
	b.end(ev.Time, func(c *lineage.Call) bool { return c.Agent == ev.Process })
	b.agents = slices.DeleteFunc(b.agents, func(id tracer.Identity) bool { return id == ev.Process })
}

// uses notes that a process of a call exits; the graph counts it after that.
func (b *book) uses(c *lineage.Call) {
	if i := slices.IndexFunc(b.most, c.Same); i >= 0 {
		c.Learn(b.most[i]) // what an earlier daemon knew
		b.most[i] = c
		return
	}
	b.most = append(heaviest(b.most), c)
}

// heaviest sorts calls, and returns those that used most CPU time.
func heaviest(all []*lineage.Call) []*lineage.Call {
	slices.SortStableFunc(all, func(x, y *lineage.Call) int {
		return cmp.Compare(y.Used().CPUTime, x.Used().CPUTime)
	})
	return all[:min(len(all), maxMost)]
}

func (b *book) end(at uint64, which func(*lineage.Call) bool) (ended []*lineage.Call) {
	b.past = slices.DeleteFunc(b.past, func(c *lineage.Call) bool { return c.Ended()+uint64(lateBirth) < at })
	b.open = slices.DeleteFunc(b.open, func(c *lineage.Call) bool {
		if !which(c) {
			return false
		}
		c.End(at)
		ended = append(ended, c)
		return true
	})
	b.past = append(b.past, ended...)
	if n := len(b.past) - 2*burst; n > 0 {
		b.past = slices.Delete(b.past, 0, n)
	}
	return ended
}

// CheckMark returns what is wrong with a request, regardless of the caller.
func CheckMark(q *api.MarkRequest) error {
	bad := func(format string, args ...any) error { return api.Errorf(api.CodeBadRequest, format, args...) }
	switch {
	case q.Phase != api.PhaseBegin && q.Phase != api.PhaseEnd:
		return bad("invalid phase %.20q: must be begin or end", q.Phase)
	case q.ID == "" && q.Phase == api.PhaseBegin:
		return bad("id is missing")
	case !fits(q.ID, maxID):
		return bad("invalid id %.40q: must be at most %d bytes of printable text", q.ID, maxID)
	case !fits(q.Tool, maxTool):
		return bad("invalid tool %.40q: must be at most %d bytes of printable text", q.Tool, maxTool)
	case q.Agent.PID <= 0:
		return bad("agent must have a pid")
	}
	return nil
}

func fits(text string, most int) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}

// Mark notes that a call begins or ends, of an agent that is the caller or its ancestor. The
// caller is a member.
func (m *Marks) Mark(c access.Caller, agent tracer.Identity, q *api.MarkRequest) (*api.Mark, error) {
	return registry.Change(m.Registry,
		func(t registry.Tx) (*api.Mark, error) { return m.mark(t, c, agent, q) })
}

// Agent finds the process that a request names, if it is the caller or has started it, with
// everything in between in the caller's session. All of them are alive, so the kernel knows
// them, and their PIDs are not reused.
func (m *Marks) Agent(c access.Caller, named api.Ref) (agent tracer.Identity, ok bool) {
	agent = c.ID
	for range maxSteps {
		e, err := m.Kernel.Lookup(agent.PID)
		if err != nil || e.Identity != agent || e.Session != c.Member {
			break
		}
		if int(agent.PID) == named.PID {
			return agent, named.StartNS == 0 || uint64(named.StartNS) == agent.Start
		}
		agent = e.Creator
	}
	return agent, false
}

func (m *Marks) mark(t registry.Tx, caller access.Caller, agent tracer.Identity,
	q *api.MarkRequest) (*api.Mark, error) {
	id := caller.Member
	s := t.Ask(id)
	if s == nil || s.Closed() {
		return nil, api.Errorf(api.CodeNotFound, "session %v not found", id)
	}
	now := m.Clock.Boottime()
	b := m.book(id)
	if !b.limit.AllowN(time.Unix(0, int64(now)), 1) {
		return nil, api.Errorf(api.CodeTooMany, "more than %d marks a second in session %v", perSecond, id)
	}
	b.last = now
	m.exempt(t, caller, agent)
	if !b.named(agent) {
		b.agents = append(b.agents, agent)
		if len(b.agents) > maxAgents {
			b.agents = slices.Delete(b.agents, 0, 1)
		}
	}
	var began, ended []*lineage.Call
	its := func(x *lineage.Call) bool { return x.Agent == agent && (q.ID == "" || x.ID == q.ID) }
	i := slices.IndexFunc(b.open, its)
	switch {
	case q.Phase == api.PhaseEnd:
		if ended = b.end(now, its); ended == nil && q.ID != "" {
			return nil, api.Errorf(api.CodeNotFound, "call %q of pid %d is not open", q.ID, agent.PID)
		}
	case i >= 0:
		return reply(t, id, b.open[i:i+1]), nil
	default:
		began = []*lineage.Call{{ID: q.ID, Tool: q.Tool, Agent: agent, Began: now, Number: m.next(now)}}
		if len(b.open) == maxOpen {
			oldest := b.open[0]
			ended = b.end(now, func(x *lineage.Call) bool { return x == oldest })
		}
		b.open = append(b.open, began...)
	}
	m.publish(t, id, now, slices.Concat(ended, began))
	if ended != nil && ended[0].Agent != agent {
		m.setCall(t, b, ended[0].Agent)
	}
	m.setCall(t, b, agent)
	t.Save(s)
	if began != nil {
		return reply(t, id, began), nil
	}
	return reply(t, id, ended), nil
}

// next returns the number of a new call. An earlier daemon's are below it: those that a process still has are
// remembered, and the time is above the others, unless there were more than 15 calls a second.
func (m *Marks) next(now uint64) uint32 {
	m.number = max(m.number+1, uint32(now>>26))
	return m.number
}

// setCall sets the call of what an agent starts from now on, for the kernel: the only one that is open,
// or without one that in which the agent was started itself.
func (m *Marks) setCall(t registry.Tx, b *book, agent tracer.Identity) {
	calls := slices.DeleteFunc(slices.Clone(b.open), func(c *lineage.Call) bool { return c.Agent != agent })
	if claim, _ := t.Graph().Claim(agent); len(calls) == 0 && claim != nil {
		calls = claim.Calls
	}
	number := uint32(0)
	if len(calls) == 1 {
		number = calls[0].Number
	}
	m.note(agent, number, true)
}

func (m *Marks) note(id tracer.Identity, call uint32, agent bool) {
	if err := m.Kernel.SetCall(id, call, agent); err != nil && !errors.Is(err, tracer.ErrNotFound) {
		m.Log.Warn().Err(err).Uint32(system.KeyPID, id.PID).Msg("call not noted in the kernel")
	}
}

// exempt notes that a hook, with the shell below which it runs, belongs to none of the agent's calls, although
// the agent started it while one was open.
func (m *Marks) exempt(t registry.Tx, hook access.Caller, agent tracer.Identity) {
	var chain []tracer.Identity
	var claim *lineage.Claim
	for id := hook.ID; id != agent && !id.IsZero() && len(chain) < maxSteps; {
		chain = append(chain, id)
		claim, id = t.Graph().Claim(id)
	}
	if claim == nil || len(claim.Calls) == 0 || claim.Calls[0].Agent != agent {
		return
	}
	m.claim(t, program{id: chain[len(chain)-1], session: hook.Member}, &lineage.Claim{Trace: claim.Trace})
	for _, id := range chain {
		m.note(id, 0, false)
	}
}

func (m *Marks) publish(t registry.Tx, id tracer.SessionID, at uint64, calls []*lineage.Call) {
	var events []tracer.Event
	for _, c := range calls {
		ev := tracer.Event{Type: tracer.EventMark, Time: at, Session: id,
			Process: c.Agent, Since: c.Began, Call: c}
		if u := c.Used(); u.Processes > 0 {
			ev.Used = &u
		}
		events = append(events, ev)
	}
	t.Apply(events)
}

func reply(t registry.Tx, id tracer.SessionID, calls []*lineage.Call) *api.Mark {
	return &api.Mark{Head: api.NewHead("mark"), Session: id.String(), Calls: documents(t.View, calls)}
}

func documents(v registry.View, calls []*lineage.Call) []api.Call {
	all := make([]api.Call, 0, len(calls))
	for _, c := range calls {
		all = append(all, document.Call(v.Encoder().Clock, c))
	}
	return all
}
