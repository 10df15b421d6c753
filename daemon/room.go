//go:build linux

package daemon

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// How many live sessions one uid but root may have, and how many may be nested
// in one that is nested in none, root's too: the kernel has slots for 16,384,
// and one agent must not take them all. The last ones are root's.
const (
	maxUIDSessions = 2048
	maxNested      = 256
	maxSessions    = 16384 - 512 // of all users but root
)

// around are the sessions that a new one will be nested in, the innermost first.
func (o *Registry) around(spec *tracer.SessionSpec) (all []*Session) {
	if spec.KeptFrom != 0 {
		return nil
	}
	e, err := o.kernel.Lookup(spec.Root.PID)
	if err != nil || e.Identity != spec.Root {
		return nil // in none, or Create says why not
	}
	for x := o.sessionOf(e.Session); x != nil && len(all) < maxDepth; x = o.sessionOf(x.info.Parent) {
		all = append(all, x)
	}
	return all
}

// room refuses a session beyond the limits, in the registry's goroutine.
func (o *Registry) room(spec *tracer.SessionSpec, around []*Session) error {
	if spec.UID != 0 {
		n, all := 0, 0
		for _, x := range o.sessions {
			if x.closed {
				continue
			}
			if all++; x.info.UID == spec.UID {
				n++
			}
		}
		if n >= maxUIDSessions {
			return api.NewError(api.CodeTooMany, fmt.Sprintf("uid %d has %d sessions", spec.UID, n), "end some")
		}
		if all >= maxSessions {
			return api.NewError(api.CodeTooMany, fmt.Sprintf("%d sessions are live, the rest is left to root", all), "end some")
		}
	}
	if len(around) == 0 {
		return nil
	}
	top := around[len(around)-1].info.ID
	n := -1 // but for itself
	for _, id := range o.family(top) {
		if x := o.sessions[id]; x != nil && !x.closed {
			n++
		}
	}
	if n >= maxNested {
		return api.NewError(api.CodeTooMany, fmt.Sprintf("%d sessions are nested in session %v", n, top), "end some")
	}
	return nil
}
