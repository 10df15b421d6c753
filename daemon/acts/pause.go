//go:build linux

package acts

import (
	"context"
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Pause pauses or resumes the session that word names, and returns it as it is then. Its warnings
// name the members that have not stopped yet. The guards of a pause are those of an end, as a
// caller that is stopped gets no reply: an [enforcer.Refusal].
func (a *Acts) Pause(ctx context.Context, word string, c access.Caller,
	verb access.Verb) (*api.Session, error) {
	over, paused := false, false
	id, err := lookup.Ask(a.o.Find, word, c, verb, func(v registry.View,
		x *registry.Session) tracer.SessionID {
		if over = x.Closed(); !over {
			v.Refresh(x)
			paused = v.Paused(x.ID()) != 0
		}
		return x.ID()
	})
	switch {
	case err != nil:
		return nil, err
	case over:
		return nil, hasEnded(verb, id)
	case verb == access.Resume && !paused:
		return nil, api.Errorf(api.CodeChanged, "%v %v: it is not paused; nothing was sent", verb, id)
	}
	var left []enforcer.Leftover
	var warning error
	if verb == access.Resume {
		if err = a.o.Freeze(id, false); err == nil {
			err = a.o.Enforcer.Resume(id)
		}
	} else if err = Guarded(a.o.Enforcer, id, c.ID); err != nil {
		a.o.Access.Refused(c, verb, id.String(), err.Error())
		return nil, err
	} else {
		left, err = a.o.Enforcer.Pause(ctx, id)
		if err == nil {
			warning = a.o.Freeze(id, true)
		}
	}
	switch {
	case errors.Is(err, tracer.ErrBusy):
		return nil, api.Errorf(api.CodeChanged, "%v %v: its end has begun; nothing was sent", verb, id)
	case errors.Is(err, tracer.ErrNotFound):
		return nil, hasEnded(verb, id)
	case err != nil:
		return nil, err
	}
	a.o.Log.Info().Str(system.KeyVerb, verb.String()).
		Str(system.KeySession, id.String()).Int(system.KeyLeft, len(left)).
		EmbedObject(c).Msg("session paused or resumed")
	a.o.Access.Done(c, verb, "", id.String(), api.Ref{})
	d, err := a.paused(id, c, verb, left)
	if err == nil && warning != nil {
		d.Warnings = append(d.Warnings, warning.Error())
	}
	return d, err
}

func (a *Acts) paused(id tracer.SessionID, c access.Caller, verb access.Verb,
	left []enforcer.Leftover) (*api.Session, error) {
	d, err := registry.Change(a.o.Registry, func(t registry.Tx) (*api.Session, error) {
		x := t.Session(id)
		if x == nil {
			return nil, hasEnded(verb, id)
		}
		t.Repaused(x)
		return new(t.Document(x, c)), nil
	})
	if err != nil {
		return nil, err
	}
	d.Head = api.NewHead("session")
	for _, l := range left {
		d.Warnings = append(d.Warnings, fmt.Sprintf("pid %d (%s) has not stopped yet: %s", l.PID, l.Comm, l.Why))
	}
	return d, nil
}

func hasEnded(verb access.Verb, id tracer.SessionID) error {
	return api.Errorf(api.CodeNotFound, "%v %v: it has ended", verb, id)
}
