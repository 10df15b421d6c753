//go:build linux

package signed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// room bounds what one receipt of a command says of its sessions, so that a link can send it as the host has signed
// it: members choose their command lines and what they hold, which may not compress.
type room struct{ processes, bytes int }

var maxNamed = room{4096, 512 << 10}

// name leaves out of a receipt what has no room: what was held, and then processes.
func (r *room) name(report *api.Report) {
	if text, err := json.Marshal(report); err == nil && len(text) <= r.bytes &&
		len(report.Processes) <= r.processes {
		*r = room{r.processes - len(report.Processes), r.bytes - len(text)}
		return
	}
	report.PortsFreed, report.PortsBusy, report.PortsTimeWait, report.LocksReleased, report.LocksHeld = nil, nil, nil, nil, nil
	report.HoldsUnknown, report.OutputHeldBy, report.Delegated, report.Zombies, report.Truncated = nil, nil, nil, nil, true
	for i := range report.Processes {
		text, err := json.Marshal(&report.Processes[i])
		if r.processes, r.bytes = r.processes-1, r.bytes-len(text); err != nil ||
			r.processes < 0 || r.bytes < 0 {
			report.Processes = report.Processes[:i:i]
			return
		}
	}
}

type Options struct {
	registry.Ground
	Memory   string                // the file in which commands are remembered
	HostKeys string                // the directory with the host's SSH keys
	Policy   func() *policy.Policy // in force; the operators' keys are in the file "operators" beside it
	BootID   string
	Find     *lookup.Finder
	Archive  *history.Archive
	Access   *access.Access
	Acts     *acts.Acts
	Stopping <-chan struct{}
}

// Orders carries out commands. It may be used from any goroutine.
type Orders struct {
	o        Options
	checker  *checker
	counting sync.Mutex // commands that are over get their numbers
}

// New makes the orders of a daemon, with what is remembered on the disk.
func New(o Options) *Orders { return &Orders{o: o, checker: newChecker(o)} }

// Carry carries out a command that c has brought. All that could refuse it comes first; then it is
// remembered on the disk; then the first process gets a signal.
func (s *Orders) Carry(req *api.SignedCommand, c access.Caller) (*api.CommandReply, error) {
	order, err := s.checker.check(req)
	if order == nil {
		return nil, s.refused(c, "", err)
	}
	c.Signed = &access.Signed{Command: order.ID, Operators: order.Operators, May: order.may}
	if err != nil {
		return nil, s.refused(c, order.ID, err)
	}
	var a accepted
	accept := func(sessions []string) func() error {
		return func() error {
			next, err := s.checker.accept(order, s.o.BootID, c.UID, sessions)
			if err != nil {
				return err
			}
			a = next
			s.o.Log.Info().Str(system.KeyCommand, order.ID).
				Strs(system.KeyOperators, order.Operators).Str(system.KeyReason, order.Reason).
				Strs(system.KeySessions, sessions).EmbedObject(c).Msg("signed command accepted")
			s.o.Access.Did(c, access.Order, order.Reason)
			return nil
		}
	}
	switch order.Verb {
	case api.VerbHalt:
		if err = s.halt(order, c, &a, accept([]string{})); err != nil && a.ID != "" {
			return nil, err
		}
	default:
		err = s.end(order, c, accept)
	}
	if err != nil {
		if a.ID != "" { // so that its receipt is complete
			a.Sessions, a.Spared = []string{}, []string{err.Error()}
			s.carried(&a)
		}
		return nil, s.refused(c, order.ID, err)
	}
	return s.reply(&a, receiptOf(&a))
}

func (s *Orders) end(order *order, c access.Caller,
	accept func(sessions []string) func() error) (refused error) {
	targets, err := s.selected(order, c)
	if err != nil {
		return err
	}
	ids := make([]string, len(targets))
	for i := range targets {
		ids[i] = targets[i].ID.String()
	}
	o := &acts.Order{Caller: c, Grace: -1, Plan: order.Plan, Accept: accept(ids),
		Refuse: func(err error) { refused = err }}
	if order.GraceMS != nil {
		o.Grace = time.Duration(*order.GraceMS) * time.Millisecond
	}
	_, _ = s.o.Acts.End(&acts.Target{Sessions: targets}, o) // what could not begin is in the log
	return refused
}

// selected are the live sessions that an order names, and that its signers may end. A word without one
// is an error. Names, patterns and all pass over the sessions that they may not end; patterns and all over kept ones.
func (s *Orders) selected(o *order, c access.Caller) (all []tracer.SessionInfo, err error) {
	rerr := s.o.Registry.Read(func(v registry.View) {
		found := map[string]bool{}
		var denied access.Decision
		for _, x := range v.Sorted() {
			info, by := x.Info(), map[string]bool{}
			named := acts.Named(&info, o.Sessions, by)
			if x.Closed() || !named && !o.All ||
				!by[info.ID.String()] && !by[info.Name] && holdsKept(v, x.ID()) {
				continue
			}
			if d := access.Decide(c, access.End, v.Scope(x)); !d.Allow {
				denied = d
				continue
			}
			maps.Copy(found, by)
			all = append(all, info)
		}
		missing := slices.IndexFunc(o.Sessions, func(word string) bool { return !found[word] })
		switch {
		case missing >= 0 && denied.Why != "":
			err = api.NewError(api.CodeDenied, denied.Why, "")
		case missing >= 0:
			err = api.Errorf(api.CodeNotFound, "session %q not found", o.Sessions[missing])
		case len(all) > api.MaxMatched:
			err = api.Errorf(api.CodeBadRequest, "it would end %d sessions, more than %d",
				len(all), api.MaxMatched)
		}
	})
	if rerr != nil {
		return nil, rerr
	}
	return all, err
}

func holdsKept(v registry.View, id tracer.SessionID) bool {
	return slices.ContainsFunc(v.Family(id), func(id tracer.SessionID) bool {
		x := v.Session(id)
		return x != nil && x.Info().Kept
	})
}

// halt carries out a command that halts the host, or lifts that. Which sessions it ends is known after
// that, so the receipt of a daemon that dies between has none, and is never complete.
func (s *Orders) halt(order *order, c access.Caller, a *accepted, accept func() error) error {
	req := api.HaltRequest{Mode: order.Mode, Reason: order.Reason, Sessions: order.Sessions, All: order.All}
	if req.Mode == api.ModeOff {
		req.Reason = ""
	}
	d, err := s.o.Acts.Halt(&req, c, accept)
	if err != nil {
		return err
	}
	for _, x := range d.Items {
		if x.Refused == "" {
			a.Sessions = append(a.Sessions, x.ID)
		} else {
			a.Spared = append(a.Spared, fmt.Sprintf("session %s: %s", x.ID, x.Refused))
		}
	}
	s.carried(a)
	return nil
}

// carried remembers what a command came to.
func (s *Orders) carried(a *accepted) {
	system.Failure(s.o.Log, s.checker.memory.carried(*a)).Str(system.KeyCommand,
		a.ID).Msg("result of a signed command not remembered")
}

// refused records why a command is not carried out, and returns the error that says so.
func (s *Orders) refused(c access.Caller, id string, err error) error {
	s.o.Access.Refused(c, access.Order, id, err.Error())
	code, hint := api.CodeDenied, ""
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeChanged { // a plan that no longer holds
		return err
	} else if ok {
		code, hint = e.Code, e.Hint
	} else if errors.Is(err, enforcer.ErrGuarded) {
		code = api.CodeGuarded
	}
	return api.NewError(code, fmt.Sprintf("command refused: %v; nothing was sent", err), hint)
}

// Receipt is the receipt of a command, for the caller that brought it and for root. It waits for the
// verdicts.
func (s *Orders) Receipt(ctx context.Context, id string, wait time.Duration,
	c access.Caller) (*api.CommandReply, error) {
	a, ok := s.checker.memory.find(id)
	if !ok || a.UID != c.UID && !c.Root() || a.Boot != s.o.BootID {
		return nil, api.NewError(api.CodeNotFound, "command not found", "")
	}
	d, err := s.receipt(ctx, &a, wait, c)
	if err != nil {
		return nil, err
	}
	return s.reply(&a, d)
}

// receipt waits for the verdicts of a command. Sessions of another boot are in the history only: others may have their
// ids now.
func (s *Orders) receipt(ctx context.Context, a *accepted, wait time.Duration,
	c access.Caller) (*api.CommandReceipt, error) {
	c.Signed = &access.Signed{Command: a.ID, Operators: a.Operators, May: func(v access.Verb, _ access.Scope) access.Decision {
		return access.Decision{Allow: v == access.Read, Why: "only its receipt may be read"}
	}}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	d := receiptOf(a)
	d.Complete = !a.Pending
	left := maxNamed
	for _, id := range a.Sessions {
		report, err := (*api.Report)(nil), error(nil)
		if a.Boot == s.o.BootID {
			if err = s.o.Find.Await(waiting, id, c, s.o.Stopping); err == nil {
				report, err = s.o.Find.Receipt(id, c, access.Read)
			}
		}
		if a.Boot != s.o.BootID || api.IsNotFound(err) {
			report, err = s.o.Archive.ReceiptOf(ctx, a.Boot, id, c)
		}
		if err != nil {
			return nil, err
		}
		if report == nil { // the disk was full, or the history was removed
			report = &api.Report{
				Head:       api.NewHead("report"),
				Session:    id,
				State:      api.StateEnded,
				Verdict:    api.VerdictUnknown,
				VerdictWhy: "the history does not have the session",
				Processes:  []api.Outcome{},
			}
		}
		left.name(report)
		d.Complete = d.Complete && report.Verdict != ""
		d.Reports = append(d.Reports, *report)
	}
	return d, nil
}

// After is the receipt of the command that was over first after that of a number, and its number; nil: that was the
// last one. The caller may read those of all commands.
func (s *Orders) After(ctx context.Context, number int64, c access.Caller) (*api.Receipt, int64, error) {
	var next accepted
	for _, a := range s.counted(ctx, c) {
		if a.Number > number && (next.Number == 0 || a.Number < next.Number) {
			next = a
		}
	}
	if next.Number == 0 {
		return nil, number, nil
	}
	d, err := s.receipt(ctx, &next, 0, c)
	if err != nil {
		return nil, number, err
	}
	reply, err := s.reply(&next, d)
	return &api.Receipt{ID: "command-" + next.ID, Command: reply}, next.Number, err
}

// Newest is the number of the command that was over last.
func (s *Orders) Newest(ctx context.Context, c access.Caller) (number int64) {
	for _, a := range s.counted(ctx, c) {
		number = max(number, a.Number)
	}
	return number
}

// counted are the commands that are remembered, after those that are over have got their numbers.
func (s *Orders) counted(ctx context.Context, c access.Caller) []accepted {
	s.counting.Lock()
	defer s.counting.Unlock()
	for _, a := range s.checker.memory.all() {
		if a.Pending || a.Number != 0 {
			continue
		}
		d, err := s.receipt(ctx, &a, 0, c)
		if err == nil && d.Complete {
			err = s.checker.memory.over(a, s.checker.now())
		}
		system.Failure(s.o.Log, err).
			Str(system.KeyCommand, a.ID).Msg("whether a signed command is over is not known, or not remembered")
	}
	return s.checker.memory.all()
}

func receiptOf(a *accepted) *api.CommandReceipt {
	host, _ := os.Hostname() // a receipt without it is still of the key that signs it
	return &api.CommandReceipt{
		ID:        a.ID,
		Verb:      a.Verb,
		Mode:      a.Mode,
		Host:      host,
		Operators: a.Operators,
		Reason:    a.Reason,
		Accepted:  a.At,
		Sessions:  a.Sessions,
		Spared:    a.Spared,
	}
}

func (s *Orders) reply(a *accepted, d *api.CommandReceipt) (*api.CommandReply, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode receipt: %w", err)
	}
	signed, err := s.checker.sign(string(text), a.Hosts)
	if err != nil {
		s.o.Log.Warn().Err(err).Str(system.KeyCommand, a.ID).Msg("receipt not signed")
	}
	return &signed, nil
}
