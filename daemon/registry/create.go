//go:build linux

package registry

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Limits of live sessions: of one user other than root, and nested in one that is not
// nested itself, root's too. The kernel has 16,384 slots, and one agent must not take
// them all. The last slots are for root.
const (
	MaxUIDSessions = 2048
	MaxNested      = 256
	maxSessions    = 16384 - 512 // of all users except root
)

// around are the sessions that a new one will be nested in, the innermost first.
func (r *Registry) around(spec *tracer.SessionSpec) (all []*Session) {
	if spec.KeptFrom != 0 {
		return nil
	}
	e, err := r.o.Kernel.Lookup(spec.Root.PID)
	if err != nil || e.Identity != spec.Root {
		return nil // not nested, or Create says why not
	}
	for x := r.sessionOf(e.Session); x != nil && len(all) < MaxDepth; x = r.sessionOf(x.info.Parent) {
		all = append(all, x)
	}
	return all
}

// room refuses a session beyond the limits, in the registry's goroutine.
func (r *Registry) room(spec *tracer.SessionSpec, around []*Session) error {
	if spec.UID != 0 {
		n, all := 0, 0
		for _, x := range r.sessions {
			if x.closed {
				continue
			}
			if all++; x.info.UID == spec.UID {
				n++
			}
		}
		if n >= MaxUIDSessions {
			return api.NewError(api.CodeTooMany,
				fmt.Sprintf("uid %d has %d sessions", spec.UID, n), "end some")
		}
		if all >= maxSessions {
			return api.NewError(api.CodeTooMany,
				fmt.Sprintf("%d sessions are live; the rest are reserved for root", all), "end some")
		}
	}
	if len(around) == 0 {
		return nil
	}
	top := around[len(around)-1].info.ID
	n := -1 // without itself
	for _, id := range r.view().Family(top) {
		if x := r.sessions[id]; x != nil && !x.closed {
			n++
		}
	}
	if n >= MaxNested {
		return api.NewError(api.CodeTooMany, fmt.Sprintf("%d sessions are nested in session %v",
			n, top), "end some")
	}
	return nil
}

// halted refuses a new session while a halt is in force; a drain does not refuse one inside another.
func (r *Registry) halted(inside bool) error {
	h := r.o.Kernel.Halted()
	if !h.Bars(inside) {
		return nil
	}
	return api.NewError(api.CodeHalted, display.Halt(document.Halt(h, r.o.Clock.Clock)),
		`lift it with "lineage halt --off"`)
}

// Create opens a session in the kernel and holds it. It runs in the registry's goroutine, so that
// no name is taken twice and no event of the session arrives before it is known.
func (t Tx) Create(spec tracer.SessionSpec) (*Session, error) {
	r := t.r
	around := r.around(&spec)
	for _, x := range r.sessions {
		if i := &x.info; spec.Requested && !spec.Adopted && i.Root == spec.Root &&
			i.Owner == spec.Owner && i.Name == spec.Name && x.Active() {
			return x, nil // the caller did not get the reply: the daemon died
		}
	}
	if o := t.obstacle(&spec, around); o != nil {
		return nil, o
	}
	if spec.Requested {
		if err := r.halted(len(around) > 0); err != nil {
			return nil, err
		}
	}
	if err := r.room(&spec, around); err != nil {
		return nil, err
	}
	spec.Taken = func(id tracer.SessionID) bool {
		for known := range r.sessions {
			if known>>32 == id>>32 { // the part of an id that users see
				return true
			}
		}
		return false
	}
	id, err := r.o.Kernel.Create(spec)
	if err != nil {
		return nil, fmt.Errorf("create session of pid %d: %w", spec.Root.PID, err)
	}
	info, err := r.o.Kernel.Session(id)
	if err != nil {
		err = fmt.Errorf("read session %v: %w", id, err)
		if spec.KeptFrom != 0 { // its process would be in no session: the next look holds it
			r.AskResync(CauseMember)
			return nil, err
		}
		_, undo := r.o.Kernel.Dissolve(id)
		t.LetGo(id)
		return nil, errors.Join(err, undo)
	}
	return r.enter(info), nil
}
