//go:build linux

package registry

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// How many live sessions one uid but root may have, and how many may be nested
// in one that is nested in none, root's too: the kernel has slots for 16,384,
// and one agent must not take them all. The last ones are root's.
const (
	MaxUIDSessions = 2048
	MaxNested      = 256
	maxSessions    = 16384 - 512 // of all users but root
)

// around are the sessions that a new one will be nested in, the innermost first.
func (r *Registry) around(spec *tracer.SessionSpec) (all []*Session) {
	if spec.KeptFrom != 0 {
		return nil
	}
	e, err := r.kernel.Lookup(spec.Root.PID)
	if err != nil || e.Identity != spec.Root {
		return nil // in none, or Create says why not
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
			return api.NewError(api.CodeTooMany, fmt.Sprintf("uid %d has %d sessions", spec.UID, n), "end some")
		}
		if all >= maxSessions {
			return api.NewError(api.CodeTooMany, fmt.Sprintf("%d sessions are live; the rest are reserved for root", all), "end some")
		}
	}
	if len(around) == 0 {
		return nil
	}
	top := around[len(around)-1].info.ID
	n := -1 // but for itself
	for _, id := range r.view().Family(top) {
		if x := r.sessions[id]; x != nil && !x.closed {
			n++
		}
	}
	if n >= MaxNested {
		return api.NewError(api.CodeTooMany, fmt.Sprintf("%d sessions are nested in session %v", n, top), "end some")
	}
	return nil
}

// create opens the session in the kernel. It runs in the registry's goroutine, so
// that two cannot take one name and no event of it comes before it is known.
func (r *Registry) create(spec tracer.SessionSpec) (*Session, error) {
	around := r.around(&spec)
	for _, x := range r.sessions {
		if spec.Name != "" && spec.Rule == 0 && !x.closed && x.info.Name == spec.Name && (x.info.UID == spec.UID || slices.Contains(around, x)) {
			return nil, api.NewError(api.CodeBusyName,
				fmt.Sprintf("session name %q is in use by %v", spec.Name, x.info.ID), "choose another --name")
		}
	}
	if err := r.room(&spec, around); err != nil {
		return nil, err
	}
	spec.Taken = func(id tracer.SessionID) bool {
		for known := range r.sessions {
			if known>>32 == id>>32 { // what people see of it
				return true
			}
		}
		return false
	}
	id, err := r.kernel.Create(spec)
	if err != nil {
		return nil, fmt.Errorf("create session of pid %d: %w", spec.Root.PID, err)
	}
	info, err := r.kernel.Session(id)
	if err != nil {
		return nil, fmt.Errorf("read session %v: %w", id, err)
	}
	return r.enter(info), nil
}
