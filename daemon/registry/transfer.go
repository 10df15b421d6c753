//go:build linux

package registry

import (
	"errors"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Adopt opens a session over a running process and enters its descendants: if
// it is a stranger by the kernel's parents, and if it is a member those whom it
// created, dead creators in between included.
func (o *Registry) Adopt(spec tracer.SessionSpec) (info tracer.SessionInfo, n int, err error) {
	var from tracer.SessionID
	var refused error
	err = o.do(func() {
		if e, err := o.kernel.Lookup(spec.Root.PID); err == nil && e.Identity == spec.Root {
			from = e.Session
		}
		x, err := o.create(spec)
		if refused = err; err == nil {
			info = x.info
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return info, 0, err
	}
	if from != 0 {
		n, err = o.follow(from, info.ID, spec.Root)
	} else {
		n, err = o.kernel.Adopt(info.ID)
	}
	o.Reread(info.ID)
	o.askHeld(info.ID)
	o.AskResync(CauseMoved)
	_ = o.do(func() {
		if x := o.sessions[info.ID]; x != nil {
			o.view().notify(x, func(h *Hooks) sessionHook { return h.Adopted })
		}
	})
	return info, n, err
}

// follow moves the descendants of a process that has changed its session: those
// whose creator is there by the kernel's own word, then those whose creators
// are dead and remembered here, until there are none.
func (o *Registry) follow(from, to tracer.SessionID, root tracer.Identity) (total int, err error) {
	for range tracer.MaxDepth * 8 {
		n, err := o.kernel.Follow(from, to)
		total += n
		if err != nil {
			return total, err
		}
		var orphans []tracer.Identity
		if err := o.do(func() { orphans = o.orphansOf(from, root) }); err != nil {
			return total, err
		}
		moved, err := o.Move(orphans, from, to)
		if total += len(moved); err != nil || len(moved) == 0 {
			return total, err
		}
	}
	return total, nil
}

// Move moves members, and gives those that were there to be moved.
func (o *Registry) Move(ids []tracer.Identity, from, to tracer.SessionID) (moved []tracer.Identity, err error) {
	for _, id := range ids {
		switch err := o.kernel.Move(id, from, to); {
		case err == nil:
			moved = append(moved, id)
		case errors.Is(err, tracer.ErrNotFound), errors.Is(err, tracer.ErrRoot):
		default:
			return moved, err
		}
	}
	return moved, nil
}

// orphansOf are the members of from that descend from root over creators that
// are dead, and that the kernel has there still.
func (o *Registry) orphansOf(from tracer.SessionID, root tracer.Identity) (all []tracer.Identity) {
	for id := range o.graph.Orphans(from) {
		for _, e := range o.graph.Ancestry(id) {
			if e.Creator == root {
				if now, err := o.kernel.Lookup(id.PID); err == nil && now.Identity == id && now.Session == from {
					all = append(all, id)
				}
				break
			}
		}
	}
	return all
}

// HandOver opens a session over members of another one, and moves them there
// with their descendants. note runs in the registry's goroutine.
func (o *Registry) HandOver(spec tracer.SessionSpec, all []tracer.Identity, note func(View, *Session)) (info tracer.SessionInfo, err error) {
	var refused error
	from := spec.KeptFrom
	err = o.do(func() {
		x, err := o.create(spec)
		if refused = err; err == nil {
			note(o.view(), x)
			info = x.info
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return info, err
	}
	for _, id := range all[1:] {
		if err := o.kernel.Move(id, from, info.ID); err != nil {
			o.log.Warn().Err(err).Str(logging.KeySession, info.ID.String()).Uint32(logging.KeyPID, id.PID).Msg("process not kept")
		}
	}
	for _, id := range all {
		if _, err := o.follow(from, info.ID, id); err != nil {
			o.log.Error().Err(err).Str(logging.KeySession, info.ID.String()).Msg("descendants not kept")
		}
	}
	o.Reread(info.ID)
	o.askHeld(info.ID)
	o.AskResync(CauseMoved)
	return info, nil
}

// Reread takes the kernel's record of a session as it is now.
func (o *Registry) Reread(id tracer.SessionID) {
	info, err := o.kernel.Session(id)
	if err != nil {
		return
	}
	_ = o.do(func() {
		if x := o.sessions[id]; x != nil && !x.closed {
			x.info = info
			o.view().Changed(id)
		}
	})
}

// letGo forgets a session that was dissolved: it never was one. Its processes
// live on, in no session or in the one around it.
func (o *Registry) letGo(id tracer.SessionID) {
	o.enforcer.Forget(id)
	o.release(id)
	o.isGone(id)
	x := o.sessions[id]
	if x == nil || x.closed {
		return
	}
	// What is nested in it is nested in the session around it.
	parent := x.info.Parent
	for _, n := range o.nested[id] {
		o.sessions[n].info.Parent = parent
		if parent != 0 && !slices.Contains(o.nested[parent], n) {
			o.nested[parent] = append(o.nested[parent], n)
		}
	}
	o.drop(x)
	if x.info.Parent == 0 {
		o.graph.Forget(id)
	}
	o.AskResync(CauseMoved)
}

// release frees the kernel's record of a session that is over or was let go of. While
// something is nested in it the kernel keeps it, and each look tries again.
func (o *Registry) release(id tracer.SessionID) {
	_, err := o.kernel.Settle(id)
	if err == nil {
		err = o.kernel.Release(id)
	}
	o.looks.unreleased = o.looks.unreleased || errors.Is(err, tracer.ErrBusy)
	if err != nil && !errors.Is(err, tracer.ErrBusy) && !errors.Is(err, tracer.ErrNotFound) {
		o.log.Error().Err(err).Str(logging.KeySession, id.String()).Msg("session not released")
	}
}
