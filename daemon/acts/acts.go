//go:build linux

// Package acts carries out what is done to sessions: ends of them and of branches, plans of ends, halts and pauses. It has
// the one order of steps of every end, and nothing else asks the guards of the enforcer.
package acts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Options struct {
	registry.Ground
	Find     *lookup.Finder
	Access   *access.Access
	Enforcer *enforcer.Enforcer
	Holdings *holdings.Holdings
	Freeze   func(id tracer.SessionID, frozen bool) error // what is in its cgroup, if it has one
}

// Acts carries out acts. Its methods may be called from any goroutine.
type Acts struct {
	o       Options
	plans   plans
	halting sync.Mutex // one halt after the other

	mu   sync.Mutex
	busy map[tracer.SessionID]chan struct{} // sessions of which a branch is being separated; closed when that is over
}

func New(o Options) *Acts { return &Acts{o: o, busy: make(map[tracer.SessionID]chan struct{})} }

type Order struct {
	Caller access.Caller
	Grace  time.Duration // negative: each session's own
	Plan   string        // token of the plan that has to hold, empty: none
	Accept func() error  // remembers the order on the disk, if not nil
	Refuse func(error)   // records why nothing is sent, if not nil
	Halt   *tracer.Halt  // comes into force with the ends, and spares what a guard refuses to end
}

// Target is what ends together: sessions that a caller may end, or those of a branch.
type Target struct {
	Sessions []tracer.SessionInfo
	branch   *Branch // nil: all of the sessions
}

func (t *Target) subject() Subject {
	if b := t.branch; b != nil {
		return b.Subject
	}
	return Subject{Session: t.Sessions[0].ID}
}

// End carries out an order: what refuses it, then the disk, then what the members hold, which takes time, so that the plan is
// asked again right before the first signal. It returns what a halt spares, and why. What Refuse has not seen is of the signals.
func (a *Acts) End(t *Target, o *Order) (spared map[tracer.SessionID]error, err error) {
	due := slices.Clone(t.Sessions)
	spared, err = a.guards(t, o)
	if o.Halt != nil {
		due = slices.DeleteFunc(due, func(s tracer.SessionInfo) bool { return spared[s.ID] != nil })
	}
	if err == nil {
		err = a.holds(t, o.Plan)
	}
	if err == nil && o.Accept != nil {
		err = o.Accept()
	}
	if err == nil {
		var before []tracer.SessionID
		for i := range due {
			if o.Grace >= 0 {
				due[i].Grace = o.Grace
			}
			if due[i].State == tracer.StateActive && due[i].Grace > 0 && o.Halt == nil {
				before = append(before, due[i].ID)
			}
		}
		if len(before) > 0 {
			a.o.Holdings.CollectBefore(before...)
		}
		err = a.holds(t, o.Plan)
	}
	if err != nil {
		if o.Refuse != nil {
			o.Refuse(err)
		}
		return nil, err
	}
	return spared, a.signal(due, o)
}

// guards returns why guards spare sessions, and an error if the order may not.
func (a *Acts) guards(t *Target, o *Order) (spared map[tracer.SessionID]error, err error) {
	spared, err = a.o.Enforcer.CheckEnds(idsOf(t.Sessions), o.Caller.ID)
	for _, s := range t.Sessions {
		if err == nil && o.Halt == nil {
			err = spared[s.ID]
		}
	}
	if err == nil && t.branch != nil {
		err = a.owns(t.branch, o.Caller)
	}
	return spared, err
}

func idsOf(sessions []tracer.SessionInfo) []tracer.SessionID {
	ids := make([]tracer.SessionID, len(sessions))
	for i := range sessions {
		ids[i] = sessions[i].ID
	}
	return ids
}

// members are the live processes of a target, the oldest first.
func (a *Acts) members(t *Target) (now []tracer.Process, err error) {
	if t.branch == nil {
		now, err = a.alive(t.Sessions[0].ID)
	} else {
		now, err = a.branchMembers(t.branch)
	}
	if err != nil {
		err = fmt.Errorf("read the session's members: %w", err)
	}
	return now, err
}

// holds refuses an end that does not match its plans: of each session one of the tokens is. What a member forks after that is
// ended too.
func (a *Acts) holds(t *Target, tokens string) (err error) {
	if tokens == "" {
		return nil
	}
	if t.branch == nil && len(t.Sessions) != 1 {
		for i := range t.Sessions {
			err = cmp.Or(err, a.holds(&Target{Sessions: t.Sessions[i : i+1]}, tokens))
		}
		return err
	}
	now, err := a.members(t)
	if err != nil {
		return err
	}
	of, why := t.subject(), "it is unknown or has expired"
	if n := a.plans.find(tokens, of, a.o.Clock.Monotonic()); n != nil {
		var run map[tracer.Identity]command
		if !of.Root.IsZero() {
			run, err = registry.Ask(a.o.Registry,
				func(v registry.View) map[tracer.Identity]command { return commandsOf(v.Graph(), now) })
		}
		why = n.broken(now, func(id tracer.Identity) [16]byte { return run[id].sum() })
	}
	if err != nil || why == "" {
		return err
	}
	return api.NewError(api.CodeChanged, fmt.Sprintf("end %v: the plan no longer holds: %s; nothing was sent", of, why),
		"make a new one with --dry-run")
}

// signal has the kernel begin the ends: for a halt all at once, else each, also if another fails.
func (a *Acts) signal(due []tracer.SessionInfo, o *Order) error {
	by := o.Caller.Document()
	if o.Halt != nil {
		by.Reason = o.Halt.Reason
	}
	err := a.o.Registry.Asked(idsOf(due), by, o.Caller.Audited())
	switch {
	case err != nil:
		return err
	case o.Halt != nil:
		return a.o.Enforcer.Halt(*o.Halt, idsOf(due))
	}
	for _, s := range due {
		failed := a.o.Enforcer.End(s.ID, tracer.CauseEnd, s.Grace)
		if errors.Is(failed, tracer.ErrNotFound) { // it is over
			failed = nil
		}
		err = errors.Join(err, failed)
		a.o.Log.Info().AnErr(system.KeyWhy, failed).
			Str(system.KeyVerb, access.End.String()).Str(system.KeySession, s.ID.String()).
			Int64(system.KeyGrace, s.Grace.Milliseconds()).EmbedObject(o.Caller).Msg("ending")
	}
	return err
}

// Guarded returns why a guard refuses to end a session, or to stop it. A rule asks as nobody.
func Guarded(e *enforcer.Enforcer, id tracer.SessionID, caller tracer.Identity) error {
	refused, err := e.CheckEnds([]tracer.SessionID{id}, caller)
	return cmp.Or(err, refused[id])
}

// EndSession ends the session that word names. Without a receipt it is over.
func (a *Acts) EndSession(word string, o *Order) (*api.Report, error) {
	over := false
	info, err := lookup.Ask(a.o.Find, word, o.Caller, access.End,
		func(v registry.View, x *registry.Session) tracer.SessionInfo {
			over = x.Closed()
			return x.Info()
		})
	if err != nil || over {
		return nil, err
	}
	o.Refuse = func(err error) {
		a.o.Access.Refused(o.Caller,
			access.End, info.ID.String(), err.Error())
	}
	if _, err := a.End(&Target{Sessions: []tracer.SessionInfo{info}}, o); err != nil {
		return nil, Refused("end "+word, err)
	}
	return a.receipt([]tracer.SessionID{info.ID}, o.Caller)
}

// receipt is that of the first session, which names the others, and no process: the reply must not wait for a turn.
func (a *Acts) receipt(ids []tracer.SessionID, c access.Caller) (*api.Report, error) {
	report, err := registry.Ask(a.o.Registry, func(v registry.View) *api.Report {
		x := v.Session(ids[0])
		if x == nil {
			return nil
		}
		v.Refresh(x)
		return v.Report(x, c)
	})
	switch {
	case err != nil:
		return nil, err
	case report == nil:
		return nil, fmt.Errorf("session %v: %w", ids[0], tracer.ErrNotFound)
	}
	d := *report
	d.Processes, d.Truncated = []api.Outcome{}, d.Truncated || len(d.Processes) > 0
	for _, id := range ids[1:] {
		d.Also = append(d.Also, id.String())
	}
	return &d, nil
}

func RefusalError(r *enforcer.Refusal) *api.Error {
	codes := map[error]string{enforcer.ErrGuarded: api.CodeGuarded,
		enforcer.ErrIdentity: api.CodeIdentity,
		enforcer.ErrStranger: api.CodeDenied}
	if code, ok := codes[r.Kind]; ok {
		return api.NewError(code, r.Error(), "")
	}
	return api.NewError(api.CodeInternal, r.Error(), "try again")
}

// Refused is the error of a verb, on what it is about, that a guard may have refused.
func Refused(verb string, err error) error {
	refusal, ok := errors.AsType[*enforcer.Refusal](err)
	if !ok {
		return err
	}
	e := RefusalError(refusal)
	e.Message = verb + ": " + e.Message
	return Unsent(e)
}

// Unsent is the error of a verb that signals: no process has got one.
func Unsent(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	said := *e
	said.Message += "; nothing was sent"
	return &said
}
