//go:build linux

package registry

import (
	"errors"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Adopt opens a session over a running process and enters its descendants: of an
// outsider, those by the kernel's parents; of a member, those that it created, dead
// creators in between included. Unless uid is 0, outsiders of other uids are left out.
func (r *Registry) Adopt(spec tracer.SessionSpec, uid uint32) (info tracer.SessionInfo, n int, err error) {
	var from tracer.SessionID
	info, err = Change(r, func(t Tx) (tracer.SessionInfo, error) {
		if e, err := r.o.Kernel.Lookup(spec.Root.PID); err == nil && e.Identity == spec.Root {
			from = e.Session
		}
		x, err := t.Create(spec)
		return x.Info(), err
	})
	if err != nil {
		return info, 0, err
	}
	if from != 0 {
		n, err = r.follow(from, info.ID, spec.Root)
	} else {
		n, err = r.o.Kernel.Adopt(info.ID, uid)
	}
	r.adopted(info.ID)
	return info, n, err
}

// adopted takes the kernel's record of a session that was opened over running processes.
func (r *Registry) adopted(id tracer.SessionID) {
	r.Do(func(t Tx) {
		if x := t.Session(id); x != nil {
			t.Refresh(x)
			t.Changed(id)
			t.notify(x, func(h *Hooks) sessionHook { return h.Adopted })
		}
	})
	r.AskResync(CauseMoved)
}

// joined counts members that ran when they were entered. Births report those that were in no
// session; of those that change it, the kernel reports nothing.
func (r *Registry) joined(id tracer.SessionID, n int) {
	if s := r.sessions[id]; s != nil {
		s.joined += n
	}
}

// Follow moves the members of a session whose creator is in another one.
func (r *Registry) Follow(from, to tracer.SessionID) (n int, err error) {
	if n, err = r.o.Kernel.Follow(from, to); n > 0 {
		err = errors.Join(err, r.Update(func(Tx) { r.joined(to, n) }))
	}
	return n, err
}

// follow moves the descendants of a process that has changed its session: first those
// whose creator the kernel has there, then those whose creators are dead and remembered
// here, until there are no more.
func (r *Registry) follow(from, to tracer.SessionID, root tracer.Identity) (total int, err error) {
	for range tracer.MaxDepth * 8 {
		n, err := r.Follow(from, to)
		total += n
		if err != nil {
			return total, err
		}
		orphans, err := Ask(r, func(v View) []tracer.Identity { return v.OrphansOf(from, root) })
		if err != nil {
			return total, err
		}
		moved, err := r.Move(orphans, from, to)
		if total += len(moved); err != nil || len(moved) == 0 {
			if errors.Is(err, tracer.ErrBusy) {
				err = nil // the session is over: the others stay where they are
			}
			return total, err
		}
	}
	return total, nil
}

// Move moves members, and returns those that still existed and were moved.
func (r *Registry) Move(ids []tracer.Identity, from,
	to tracer.SessionID) (moved []tracer.Identity, err error) {
	for _, id := range ids {
		if err = r.o.Kernel.Move(id, from, to); err == nil {
			moved = append(moved, id)
		} else if !errors.Is(err, tracer.ErrNotFound) && !errors.Is(err, tracer.ErrRoot) {
			break
		}
		err = nil
	}
	if len(moved) > 0 {
		err = errors.Join(err, r.Update(func(Tx) { r.joined(to, len(moved)) }))
	}
	return moved, err
}

// OrphansOf are the members of from that descend from root over dead creators, and that
// the kernel still has there. They are about to be moved.
func (v View) OrphansOf(from tracer.SessionID, root tracer.Identity) (all []tracer.Identity) {
	for id := range v.r.graph.Orphans(from) {
		for _, e := range v.r.graph.Ancestry(id) {
			if e.Creator == root {
				if now, err := v.r.o.Kernel.Lookup(id.PID); err == nil && now.Identity == id && now.Session == from {
					all = append(all, id)
				}
				break
			}
		}
	}
	return all
}

// HandOver opens a session over members of another one, whose receipt will name them, and moves them there
// with their descendants. note runs in the registry's goroutine. If the session is over before all
// are moved, another one is opened over the rest.
func (r *Registry) HandOver(spec tracer.SessionSpec, all []tracer.Identity,
	note func(View, *Session)) (info tracer.SessionInfo, err error) {
	from, o := spec.KeptFrom, api.Outcome{Outcome: api.OutcomeKept}
	info, err = Change(r, func(t Tx) (tracer.SessionInfo, error) {
		x, err := t.Create(spec)
		if err != nil {
			return tracer.SessionInfo{}, err
		}
		note(t.View, x)
		kept := t.Document(x, access.Caller{})
		o.Session, o.Why = kept.ID, strings.Replace(display.Kept(&kept), "kept", "session "+kept.ID, 1)
		r.moved(from, spec.Root, o)
		return x.info, nil
	})
	if err != nil {
		return info, err
	}
	var late []tracer.Identity
	for i, id := range all[1:] {
		moved, err := r.Move([]tracer.Identity{id}, from, info.ID)
		for _, id := range moved {
			r.Do(func(Tx) { r.moved(from, id, o) })
		}
		if errors.Is(err, tracer.ErrBusy) {
			all, late = all[:i+1], all[i+1:] // those before have exited, and the session is over
			break
		}
		if err != nil {
			r.o.Log.Warn().Err(err).Str(system.KeySession, info.ID.String()).
				Uint32(system.KeyPID, id.PID).Msg("process not kept")
		}
	}
	for _, id := range all {
		_, err := r.follow(from, info.ID, id)
		system.Failure(r.o.Log, err).Str(system.KeySession, info.ID.String()).Msg("descendants not kept")
	}
	r.adopted(info.ID)
	if len(late) > 0 {
		spec.Root = late[0]
		return r.HandOver(spec, late, note)
	}
	return info, nil
}

// LetGo forgets a session that was dissolved. Its processes live on, in no session or
// in the one around it.
func (t Tx) LetGo(id tracer.SessionID) {
	r := t.r
	r.o.Enforcer.Forget(id)
	r.release(id)
	r.isGone(id)
	x := r.sessions[id]
	if x == nil || x.closed {
		return
	}
	// Sessions nested in it are now nested in the session around it.
	parent := x.info.Parent
	gone := func(n tracer.SessionID) bool { return r.sessions[n] == nil } // after the kernel had moved it there
	for _, n := range slices.DeleteFunc(r.nested[id], gone) {
		r.sessions[n].info.Parent = parent
		if parent != 0 && !slices.Contains(r.nested[parent], n) {
			r.nested[parent] = append(r.nested[parent], n)
		}
	}
	r.drop(x)
	if x.info.Parent == 0 {
		r.graph.Forget(id)
	}
	r.AskResync(CauseMoved)
}

// release frees the kernel's record of a session that ended or was dissolved. The
// kernel keeps it while something is nested in it: then it goes with that, or a later look tries again.
func (r *Registry) release(id tracer.SessionID) {
	_, err := r.o.Kernel.Settle(id)
	if err == nil {
		err = r.o.Kernel.Release(id)
	}
	if err == nil || errors.Is(err, tracer.ErrNotFound) {
		delete(r.looks.unreleased, id)
		if s := r.sessions[id]; s != nil && r.looks.unreleased[s.info.Parent] {
			r.release(s.info.Parent)
		}
		return
	}
	r.looks.unreleased[id] = true
	if !errors.Is(err, tracer.ErrBusy) {
		r.o.Log.Error().Err(err).Str(system.KeySession, id.String()).Msg("session not released")
	}
}
