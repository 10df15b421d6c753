//go:build linux

package attribution

import (
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// What was attributed on weak evidence is judged again: when a walk meets it, and when
// it has execed another program, whose environment may show more. Evidence only ever
// rises.

const (
	// maxUnsure bounds how many programs wait to be looked at again.
	maxUnsure = 1024
	// looksAgain is how long they wait, so that one walk serves all.
	looksAgain = 20 * time.Millisecond
)

// askAgain requests a look at a process that is held on weak evidence and has execed
// another program. If too many wait, the next look at all finds it.
func (a *Attribution) askAgain(s *registry.Session, id tracer.Identity) {
	if its := a.of(s.ID()); its.For == 0 || !its.Weak {
		return
	}
	system.Offer(a.unsure, id)
}

// again judges the processes that have execed other programs.
func (a *Attribution) again(ids []tracer.Identity) {
	var met []tracer.Process
	err := a.o.Kernel.Snapshot(0, func(t *tracer.Process) error {
		if !t.Dead && slices.Contains(ids, t.Identity) {
			met = append(met, *t)
		}
		return nil
	})
	if err != nil {
		a.o.Log.Error().Err(err).Msg("delegated work not checked again")
		return
	}
	a.judge(met)
}

// raise moves a member of a companion session to the session for which it works, if it
// is to end with that one; else it stays, with the better evidence.
func (a *Attribution) raise(x *candidate, p *proof) {
	from, into := x.Session, p.claimant.info.ID
	if !a.ends(p) || p.claimant.over {
		if x.Source.Strong() {
			return // already reported
		}
		into = from
	}
	switch err := a.o.Kernel.Enter(from, into, x.Identity, p.client(), p.source); {
	case errors.Is(err, tracer.ErrNotFound), errors.Is(err,
		tracer.ErrProtected), errors.Is(err, tracer.ErrBusy):
		return // it is gone, or somewhere else by now, or the session is over
	case err != nil:
		a.o.Log.Error().Err(err).Str(system.KeySession, p.claimant.info.ID.String()).
			Uint32(system.KeyPID, x.PID).Msg("delegated work not attributed")
		return
	}
	n := 0
	if into != from {
		var err error
		n, err = a.followRaised(from, into, x.Identity)
		system.Failure(a.o.Log, err).
			Str(system.KeySession, into.String()).Msg("descendants of delegated work not entered")
	}
	a.o.Registry.Do(func(t registry.Tx) { a.lose(t.View, from, x.Identity) })
	a.book(x, p, into, n)
	a.o.Registry.Do(func(t registry.Tx) { a.weigh(t.View, from) })
	if into != from {
		a.vacate(from)
	}
}

// followRaised moves the descendants of a process that was raised, as follow does. But
// the creator of other work in that session may be a member of into as well: the client
// that asked for it. That work stays: it was found on its own evidence.
func (a *Attribution) followRaised(from, into tracer.SessionID,
	raised tracer.Identity) (total int, err error) {
	family := map[tracer.Identity]bool{raised: true}
	for range tracer.MaxDepth * 8 {
		var next []tracer.Identity
		err := a.o.Kernel.Snapshot(from, func(p *tracer.Process) error {
			if p.Session == from && !p.Dead && p.Evidence != tracer.EvidenceAdopted && family[p.Creator] {
				next = append(next, p.Identity)
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		orphans, err := registry.Ask(a.o.Registry,
			func(v registry.View) []tracer.Identity { return v.OrphansOf(from, raised) })
		if err != nil {
			return total, err
		}
		moved, err := a.o.Registry.Move(append(next, orphans...), from, into)
		if total += len(moved); err != nil || len(moved) == 0 {
			return total, err
		}
		for _, id := range moved {
			family[id] = true
		}
	}
	return total, nil
}

// lose removes a process from what was found for the session of the companion session
// from.
func (a *Attribution) lose(v registry.View, from tracer.SessionID, id tracer.Identity) {
	if v.Session(from) == nil {
		return
	}
	if x := v.Session(a.of(from).For); x != nil {
		s := a.of(x.ID())
		s.Found = slices.DeleteFunc(s.Found, func(job attributed) bool { return job.Process == id })
		v.Save(x)
		v.Changed(x.ID())
	}
}

// weigh lets a companion session count as strong once all evidence in it is.
func (a *Attribution) weigh(v registry.View, id tracer.SessionID) {
	x := v.Session(id)
	if x == nil || !a.of(id).Weak {
		return
	}
	companion := a.of(id)
	if v.Session(companion.For) == nil {
		return
	}
	s := a.of(companion.For)
	if s.Overflow || slices.ContainsFunc(s.Found,
		func(job attributed) bool { return job.Session == id && !job.Source.Strong() }) {
		return
	}
	err := a.o.Kernel.SetTerms(id, tracer.SessionSpec{Grace: x.Info().Grace,
		KeepOnRootExit: true, For: companion.For})
	if err != nil {
		return // it is ending
	}
	companion.Weak = false
	v.Save(x)
	v.Changed(id)
}

// vacate dissolves a companion session without live members, as they are shown where
// they are now.
func (a *Attribution) vacate(id tracer.SessionID) {
	info, err := a.o.Kernel.Session(id)
	if err != nil || info.Live != 0 || info.State != tracer.StateActive {
		return
	}
	if _, err := a.o.Kernel.Dissolve(id); err != nil {
		return // it is ending already
	}
	_, err = a.o.Registry.Resync(registry.CauseMoved)
	system.Failure(a.o.Log, err).Msg("state of the kernel side not read")
	a.o.Registry.Do(func(t registry.Tx) { t.LetGo(id) })
	a.o.Steward.Record("broker", access.AuditDone, "stronger evidence was found for everything in it",
		id, tracer.Identity{})
}
