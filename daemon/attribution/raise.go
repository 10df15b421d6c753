//go:build linux

package attribution

import (
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// What was attributed on weak evidence is looked at again: by whoever meets it
// in the task list, and when it has become another program, whose environment
// may say more. Evidence only ever rises.

const (
	// maxUnsure bounds how many programs wait to be looked at again.
	maxUnsure = 1024
	// looksAgain is how long they wait for one another: one walk serves all.
	looksAgain = 20 * time.Millisecond
)

// askAgain asks for a look at a process that is held on weak evidence and has
// become another program. If too many wait, the next look at all meets it.
func (b *Attribution) askAgain(s *registry.Session, id tracer.Identity) {
	if its := b.of(s.ID()); its.For == 0 || !its.Weak {
		return
	}
	select {
	case b.unsure <- id:
	default:
	}
}

// again looks at those that have become other programs.
func (b *Attribution) again(ids []tracer.Identity) {
	var met []tracer.Process
	err := b.kernel.Snapshot(0, func(t *tracer.Process) error {
		if !t.Dead && slices.Contains(ids, t.Identity) {
			met = append(met, *t)
		}
		return nil
	})
	if err != nil {
		b.log.Error().Err(err).Msg("brokered work not checked again")
		return
	}
	b.judge(met)
}

// raise enters a member of a session beside for the session whose work it is, if
// it is to end with that one; else it stays, with the better evidence.
func (b *Attribution) raise(x *candidate, p *proof) {
	from, into := x.Session, p.claimant.info.ID
	if !b.ends(p.source) || p.claimant.over {
		if x.Source.Strong() {
			return // it was told
		}
		into = from
	}
	switch err := b.kernel.Raise(from, into, x.Identity, p.client, p.source); {
	case errors.Is(err, tracer.ErrNotFound), errors.Is(err, tracer.ErrProtected):
		return // it is gone, or somewhere else by now
	case err != nil:
		b.log.Error().Err(err).Str(logging.KeySession, p.claimant.info.ID.String()).Uint32(logging.KeyPID, x.PID).Msg("brokered work not attributed")
		return
	}
	n := 0
	if into != from {
		var err error
		if n, err = b.followRaised(from, into, x.Identity); err != nil {
			b.log.Error().Err(err).Str(logging.KeySession, into.String()).Msg("descendants of brokered work not entered")
		}
	}
	_ = b.registry.Update(func(t registry.Tx) { b.lose(t.View, from, x.Identity) })
	b.book(x, p, into, n)
	_ = b.registry.Update(func(t registry.Tx) { b.weigh(t.View, from) })
	if into != from {
		b.vacate(from)
	}
}

// followRaised moves the descendants of a process that was raised, as follow does.
// But the creator of other work in that session may be a member of into as well,
// the client that asked for it, and such work stays: it was found on its own.
func (b *Attribution) followRaised(from, into tracer.SessionID, raised tracer.Identity) (total int, err error) {
	family := map[tracer.Identity]bool{raised: true}
	for range tracer.MaxDepth * 8 {
		var next []tracer.Identity
		err := b.kernel.Snapshot(from, func(p *tracer.Process) error {
			if p.Session == from && !p.Dead && p.Evidence != tracer.EvidenceAdopted && family[p.Creator] {
				next = append(next, p.Identity)
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		if err := b.registry.Read(func(v registry.View) { next = append(next, v.OrphansOf(from, raised)...) }); err != nil {
			return total, err
		}
		moved, err := b.registry.Move(next, from, into)
		if total += len(moved); err != nil || len(moved) == 0 {
			return total, err
		}
		for _, id := range moved {
			family[id] = true
		}
	}
	return total, nil
}

// lose takes back that a process was found for the session that from stands
// beside.
func (b *Attribution) lose(v registry.View, from tracer.SessionID, id tracer.Identity) {
	if v.Session(from) == nil {
		return
	}
	if x := v.Session(b.of(from).For); x != nil {
		s := b.of(x.ID())
		s.Found = slices.DeleteFunc(s.Found, func(a attributed) bool { return a.Process == id })
		v.Save(x)
		v.Changed(x.ID())
	}
}

// weigh lets a session beside count as strong when all that it was made for is.
func (b *Attribution) weigh(v registry.View, id tracer.SessionID) {
	x := v.Session(id)
	if x == nil || !b.of(id).Weak {
		return
	}
	beside := b.of(id)
	if v.Session(beside.For) == nil {
		return
	}
	s := b.of(beside.For)
	if s.Overflow || slices.ContainsFunc(s.Found, func(a attributed) bool { return a.Session == id && !a.Source.Strong() }) {
		return
	}
	err := b.kernel.SetTerms(id, tracer.SessionSpec{Grace: x.Info().Grace, KeepOnRootExit: true, For: beside.For})
	if err != nil {
		return // it is ending
	}
	beside.Weak = false
	v.Save(x)
	v.Changed(id)
}

// vacate forgets a session beside that nobody is left in: where its members
// are now, they are told of.
func (b *Attribution) vacate(id tracer.SessionID) {
	info, err := b.kernel.Session(id)
	if err != nil || info.Live != 0 || info.State != tracer.StateActive {
		return
	}
	if _, err := b.kernel.Dissolve(id); err != nil {
		return // it ends by itself
	}
	if _, err := b.registry.Resync(registry.CauseMoved); err != nil {
		b.log.Error().Err(err).Msg("state of the kernel side not read")
	}
	_ = b.registry.Update(func(t registry.Tx) { t.LetGo(id) })
	b.audit.Add(audit.Record{
		Time: time.Now().UTC(), Verb: "broker", Decision: audit.Done, Reason: "stronger evidence was found for everything in it",
		Target: &audit.Target{Session: id.String()}, Mode: b.rules.Mode(),
	})
}
