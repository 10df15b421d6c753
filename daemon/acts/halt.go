//go:build linux

package acts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Halt halts or drains the host, or lifts that. accept remembers the request, if not nil.
func (a *Acts) Halt(req *api.HaltRequest, c access.Caller, accept func() error) (*api.Halted, error) {
	to, err := a.halt(req, c)
	if err == nil {
		_, err = a.named(req.Sessions, true)
	}
	if err == nil && accept != nil {
		err = accept()
	}
	if err != nil {
		return nil, err
	}
	a.halting.Lock()
	defer a.halting.Unlock()
	d := &api.Halted{Head: api.NewHead("halted"), Halt: document.Halt(to, a.o.Clock.Clock),
		Items: []api.HaltedSession{}}
	if to.Mode == tracer.HaltAll {
		d.Items, err = a.haltAll(to, req, c)
		return d, err
	}
	if err := a.o.Kernel.SetHalt(to, nil); err != nil {
		return nil, err
	}
	a.recordHalt(req, c)
	return d, nil
}

// recordHalt says that a request was carried out.
func (a *Acts) recordHalt(req *api.HaltRequest, c access.Caller) {
	a.o.Log.Warn().Str(system.KeyMode, req.Mode).Str(system.KeyReason,
		req.Reason).EmbedObject(c).Msg("halt")
	a.o.Access.Did(c, access.Halt, strings.TrimSuffix(req.Mode+": "+req.Reason, ": "))
}

func (a *Acts) halt(req *api.HaltRequest, c access.Caller) (to tracer.Halt, err error) {
	to = tracer.Halt{Since: a.o.Clock.Boottime(), UID: c.UID, Reason: req.Reason}
	bad := func(format string, args ...any) (tracer.Halt, error) {
		return to, api.Errorf(api.CodeBadRequest, format, args...)
	}
	switch req.Mode {
	case api.ModeHalt:
		to.Mode = tracer.HaltAll
	case api.ModeDrain:
		to.Mode = tracer.HaltDrain
	case api.ModeOff:
		to = tracer.Halt{}
		if req.Reason != "" {
			return bad("reason is not for mode off")
		}
	default:
		return bad("invalid mode %q: must be halt, drain or off", req.Mode)
	}
	switch {
	case (len(req.Sessions) > 0 || req.All) && to.Mode != tracer.HaltAll:
		return bad("sessions are for mode halt: the others end none")
	case to.Mode == tracer.HaltAll && req.All == (len(req.Sessions) > 0):
		return bad("name sessions, or all")
	case to.Mode != tracer.HaltNone && strings.TrimSpace(req.Reason) == "":
		return bad("reason is missing")
	case len(req.Reason) > api.MaxHaltReason:
		return bad("reason of %d bytes: at most %d", len(req.Reason), api.MaxHaltReason)
	case !api.Plain(req.Reason):
		return bad("reason is not one line of text")
	}
	return to, nil
}

// haltAll halts, and ends sessions, except those that a guard spares: first these, with the halt itself, so that
// the kernel continues if this daemon is killed; then, once, those that were opened meanwhile. An agent that
// execs after that sees the halt, and what a rule opens after that the rule ends.
func (a *Acts) haltAll(to tracer.Halt, req *api.HaltRequest, c access.Caller) ([]api.HaltedSession, error) {
	items := []api.HaltedSession{}
	for _, first := range []bool{true, false} {
		due, err := a.named(req.Sessions, first)
		due = slices.DeleteFunc(due, func(s tracer.SessionInfo) bool {
			return slices.ContainsFunc(items, func(i api.HaltedSession) bool { return i.ID == s.ID.String() })
		})
		if err != nil || !first && len(due) == 0 {
			return items, err
		}
		spared, err := a.End(&Target{Sessions: due}, &Order{Caller: c, Halt: &to})
		for _, s := range due {
			item := api.HaltedSession{ID: s.ID.String(), Name: s.Name}
			if why := spared[s.ID]; why != nil {
				item.Refused = why.Error()
				a.o.Access.Refused(c, access.End, item.ID, item.Refused)
			}
			items = append(items, item)
		}
		if err != nil || !first {
			return items, err
		}
		a.recordHalt(req, c)
		// After this every session that was being opened is in the kernel's list.
		if err := a.o.Registry.Update(func(registry.Tx) {}); err != nil {
			return items, err
		}
	}
	return items, nil
}

// named are the live sessions that words name, or all without words. each: a word without one is an error, but not the id
// of one that is over: it may have ended since it was selected, and the others must not live for that.
func (a *Acts) named(words []string, each bool) ([]tracer.SessionInfo, error) {
	all, err := a.o.Kernel.Sessions()
	found := map[string]bool{}
	err = cmp.Or(err, a.o.Registry.Read(func(v registry.View) {
		for x := range v.Sessions() {
			found[x.ID().String()] = true
		}
	}))
	all = slices.DeleteFunc(all, func(s tracer.SessionInfo) bool {
		live := s.State == tracer.StateActive || s.State == tracer.StateEnding || s.State == tracer.StateCondemned
		return !live || registry.Hidden(s) || !Named(&s, words, found) && len(words) > 0
	})
	for _, word := range words {
		if each && err == nil && !found[word] {
			err = api.Errorf(api.CodeNotFound, "session %q not found", word)
		}
	}
	return all, err
}

// Named reports whether one of words names a session: by id, name, or a pattern of names. It notes those that do in found.
func Named(s *tracer.SessionInfo, words []string, found map[string]bool) (named bool) {
	x := &api.Session{ID: s.ID.String(), Name: s.Name}
	for _, word := range words {
		if api.Means(word, x) {
			named, found[word] = true, true
		}
	}
	return named
}
