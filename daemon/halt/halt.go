//go:build linux

package halt

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Kernel is what a halt needs of the tracer.
type Kernel interface {
	Sessions() ([]tracer.SessionInfo, error)
	Halted() tracer.Halt
	SetHalt(h tracer.Halt, ends []tracer.SessionID) error
}

// Options of New.
type Options struct {
	Registry *registry.Registry
	Kernel   Kernel
	Enforcer *enforcer.Enforcer
	Access   *access.Access
	Clock    registry.Clock
	Hidden   func(tracer.SessionInfo) bool // sessions that no user sees
	Log      zerolog.Logger
}

// Halt halts and drains the host. It may be used from any goroutine.
type Halt struct {
	o   Options
	one sync.Mutex // one request after the other
}

// New makes the halt of one daemon.
func New(o Options) *Halt { return &Halt{o: o} }

// Set carries out a request.
func (h *Halt) Set(req *api.HaltRequest, c access.Caller) (*api.Halted, error) {
	to, err := h.asked(req, c)
	if err != nil {
		return nil, err
	}
	h.one.Lock()
	defer h.one.Unlock()
	first, err := h.named(req.Sessions)
	if err != nil {
		return nil, err
	}
	d := &api.Halted{Head: api.NewHead("halted"), Halt: document.Halt(to, h.o.Clock.Clock), Items: []api.HaltedSession{}}
	if to.Mode == tracer.HaltAll {
		d.Items, err = h.end(to, req, first, c)
		return d, err
	}
	if err := h.o.Kernel.SetHalt(to, nil); err != nil {
		return nil, err
	}
	h.record(req, c)
	return d, nil
}

// record says that a request was carried out.
func (h *Halt) record(req *api.HaltRequest, c access.Caller) {
	h.o.Log.Warn().Str(logging.KeyMode, req.Mode).Str(logging.KeyReason, req.Reason).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, c.ID.PID).Msg("halt")
	h.o.Access.Did(c, access.Halt, strings.TrimSuffix(req.Mode+": "+req.Reason, ": "))
}

// Check returns why a request would be refused.
func (h *Halt) Check(req *api.HaltRequest, c access.Caller) error {
	if _, err := h.asked(req, c); err != nil {
		return err
	}
	_, err := h.named(req.Sessions)
	return err
}

// asked is the halt that a request asks for.
func (h *Halt) asked(req *api.HaltRequest, c access.Caller) (to tracer.Halt, err error) {
	to = tracer.Halt{Since: h.o.Clock.Boottime(), UID: c.UID, Reason: req.Reason}
	bad := func(format string, args ...any) (tracer.Halt, error) {
		return to, api.NewError(api.CodeBadRequest, fmt.Sprintf(format, args...), "")
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
	case len(req.Sessions) > 0 && to.Mode != tracer.HaltAll:
		return bad("sessions are for mode halt: the others end none")
	case to.Mode != tracer.HaltNone && strings.TrimSpace(req.Reason) == "":
		return bad("reason is missing")
	case len(req.Reason) > api.MaxHaltReason:
		return bad("reason of %d bytes: at most %d", len(req.Reason), api.MaxHaltReason)
	case !api.Plain(req.Reason):
		return bad("reason is not one line of text")
	}
	return to, nil
}

// end halts, and ends sessions, except those that a guard spares: first these, with the halt itself, so that
// the kernel continues if this daemon is killed; then, once, those that were opened meanwhile. An agent that
// execs after that sees the halt, and what a rule opens after that the rule ends.
func (h *Halt) end(to tracer.Halt, req *api.HaltRequest, first []tracer.SessionInfo, c access.Caller) ([]api.HaltedSession, error) {
	items, err := h.endThese(to, first, c)
	if err != nil {
		return nil, err
	}
	h.record(req, c)
	// After this every session that was being opened is in the kernel's list.
	if err := h.o.Registry.Update(func(registry.Tx) {}); err != nil {
		return nil, err
	}
	later, _, err := h.chosen(req.Sessions)
	if err != nil {
		return nil, err
	}
	later = slices.DeleteFunc(later, func(s tracer.SessionInfo) bool {
		return slices.ContainsFunc(items, func(i api.HaltedSession) bool { return i.ID == s.ID.String() })
	})
	if len(later) == 0 {
		return items, nil
	}
	more, err := h.endThese(to, later, c)
	return append(items, more...), err
}

// endThese puts the halt in force, and with it ends those of the sessions that no guard spares.
func (h *Halt) endThese(to tracer.Halt, sessions []tracer.SessionInfo, c access.Caller) ([]api.HaltedSession, error) {
	ids := make([]tracer.SessionID, len(sessions))
	for i := range sessions {
		ids[i] = sessions[i].ID
	}
	refused, err := h.o.Enforcer.CheckEnds(ids, c.ID)
	if err != nil {
		return nil, err
	}
	items := []api.HaltedSession{}
	ids = nil
	for i := range sessions {
		s := &sessions[i]
		item := api.HaltedSession{ID: s.ID.String(), Name: s.Name}
		if why := refused[s.ID]; why != nil {
			item.Refused = why.Error()
			h.o.Access.Refused(c, access.End, item.ID, item.Refused)
		} else {
			ids = append(ids, s.ID)
		}
		items = append(items, item)
	}
	by := c.Document()
	by.Reason = to.Reason
	return items, h.o.Registry.Halt(to, ids, by, c.Audited())
}

// named is chosen, and an error if a word names none.
func (h *Halt) named(words []string) ([]tracer.SessionInfo, error) {
	all, missing, err := h.chosen(words)
	if err == nil && missing != "" {
		err = api.NewError(api.CodeNotFound, fmt.Sprintf("session %q not found", missing), "")
	}
	return all, err
}

// chosen are the live sessions that words name by id or name, or all. missing is a word without one.
func (h *Halt) chosen(words []string) (all []tracer.SessionInfo, missing string, err error) {
	all, err = h.o.Kernel.Sessions()
	if err != nil {
		return nil, "", err
	}
	found := map[string]bool{}
	all = slices.DeleteFunc(all, func(s tracer.SessionInfo) bool {
		live := s.State == tracer.StateActive || s.State == tracer.StateEnding || s.State == tracer.StateCondemned
		if len(words) > 0 && !s.Among(words) || !live || h.o.Hidden(s) {
			return true
		}
		found[s.ID.String()], found[s.Name] = true, true
		return false
	})
	for _, word := range words {
		if !found[word] {
			missing = word
		}
	}
	return all, missing, nil
}
