//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/takeover"
	"golang.org/x/sys/unix"
)

// openPrevious opens the first of the named directories of pins. Nil: there is none, or
// its maps are not pinned, so it has no sessions to read. [ErrOtherABI]: the maps are
// pinned but cannot be read.
func openPrevious(dir string, names []string) (*takeover.Programs, error) {
	for _, name := range names {
		d := filepath.Join(dir, name)
		p, err := takeover.Open(d, func(name string) string { return pinPath(d, mapPin, name) })
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("take over from %s: %w: %w", d, ErrOtherABI, err)
		}
		return p, nil
	}
	return nil, nil
}

// carrySessions adds those of the old sessions that ours does not have yet, in the state
// "free": it has no effect, and members can be counted.
func (t *Tracer) carrySessions(from *takeover.Programs) error {
	sessions, ctl := t.maps[bpf.LineageMapSessions], t.maps[bpf.LineageMapSessionCtl]
	return from.Sessions(func(slot uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error {
		var have bpf.LineageSession
		if slot >= sessions.MaxEntries() {
			return fmt.Errorf("session %v: slot %d is not one of our %d", SessionID(s.Id),
				slot, sessions.MaxEntries())
		}
		if err := sessions.Lookup(slot, &have); err != nil {
			return fmt.Errorf("session %v: %w", SessionID(s.Id), err)
		}
		if have.Id == s.Id {
			return nil
		}
		if c.Flags&sessionSpares != 0 {
			atomic.StoreUint32(&t.control.shared.Spares, 1)
		}
		c.Status = uint32(StateFree)
		if err := errors.Join(ctl.Put(slot, c), sessions.Put(slot, s)); err != nil {
			return fmt.Errorf("session %v: %w", SessionID(s.Id), err)
		}
		return nil
	})
}

// carry copies everything that the old programs know to ours, whose hooks already run beside
// theirs: first the members, then their sessions' states. execs are the last ones of all processes
// before our hooks ran.
func (t *Tracer) carry(from *takeover.Programs, execs map[Identity]uint64) (err error) {
	m := t.maps[bpf.LineageMapElder]
	if err := m.Put(uint32(0), from.Processes()); err != nil {
		return fmt.Errorf("show its processes: %w", err)
	}
	if _, err := t.untilSettled(bpf.LineageProgVerbCarry, bpf.LineageVerbArgs{}); err != nil {
		return err
	}
	// The old exec hook has opened sessions meanwhile: copy these and their members, too.
	agents, err := from.StopAgents()
	if err != nil {
		return err
	}
	defer agents.Close()
	defer func() {
		if err != nil {
			agents.Resume()
		}
	}()
	// An update of this kind of map waits for running programs: after it, old hooks
	// that had not seen the stop are finished.
	if err := m.Put(uint32(0), from.Processes()); err != nil {
		return fmt.Errorf("show its processes: %w", err)
	}
	if err := t.carrySessions(from); err != nil {
		return err
	}
	if _, err := t.untilSettled(bpf.LineageProgVerbCarry, bpf.LineageVerbArgs{}); err != nil {
		return err
	}
	// Until here the old hooks have carried out the ends of their sessions.
	if err := t.carryStates(from); err != nil {
		return err
	}
	if err := t.fillSlots(); err != nil {
		return err
	}
	if err := t.carryAgents(agents, execs); err != nil {
		return err
	}
	if err := errors.Join(t.carryDead(from), from.CopyListeners(t.maps[bpf.LineageMapListeners])); err != nil {
		return err
	}
	if err := m.Delete(uint32(0)); err != nil {
		return fmt.Errorf("let go of its processes: %w", err)
	}
	// What fell due while neither side acted on it.
	return t.run(bpf.LineageProgVerbSentence, &bpf.LineageVerbArgs{})
}

// carryStates copies what the old programs have decided about their sessions. Until then
// ours open and nest no session.
func (t *Tracer) carryStates(from *takeover.Programs) error {
	ctl := t.maps[bpf.LineageMapSessionCtl]
	nested := map[uint64]uint32{}
	ofAgents := map[uint32]int64{} // by uid
	states := map[uint32]*bpf.LineageCtl{}
	err := from.Sessions(func(slot uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error {
		var have bpf.LineageCtl
		if err := ctl.Lookup(slot, &have); err != nil || have.Id != c.Id {
			return err
		}
		states[slot] = c
		nested[s.Parent]++
		if c.Flags&sessionAgent != 0 && c.Uid != 0 {
			ofAgents[c.Uid]++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("carry states: %w", err)
	}
	for slot, c := range states {
		c.Nested = nested[c.Id]
		if err := ctl.Put(slot, c); err != nil {
			return fmt.Errorf("carry state of session %v: %w", SessionID(c.Id), err)
		}
	}
	for uid, n := range ofAgents {
		if err := t.maps[bpf.LineageMapAgentUids].Put(uid, n); err != nil {
			return fmt.Errorf("carry sessions of uid %d: %w", uid, err)
		}
	}
	return nil
}

func (t *Tracer) carryDead(from *takeover.Programs) error {
	err := from.Dead(func(id Identity, session uint64, dying bool) error {
		args := bpf.LineageVerbArgs{Root: wireIdentity(id), Session: session, Flags: flag[uint32](dying, 1)}
		if err := t.run(bpf.LineageProgVerbCarryDead, &args); !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("carry the dead: %w", err)
	}
	return nil
}

// carryHalt takes the halt that is in force. Until they are detached the old programs refuse agents, too.
func (t *Tracer) carryHalt(from *takeover.Programs) error {
	h, err := from.Halt()
	if err != nil {
		return err
	}
	to := &t.control.shared.Halt
	to.Since, to.Mode, to.Uid, to.Reason = h.Since, h.Mode, h.Uid, h.Reason
	return nil
}

// carryAgents makes our programs open sessions for the same agents.
func (t *Tracer) carryAgents(from *takeover.Agents, execs map[Identity]uint64) error {
	all, err := from.All()
	if err != nil || all == nil {
		return err
	}
	late := lateAgents{agents: map[Comm]bpf.LineageAgent{}, before: execs}
	for comm, g := range all {
		if err := t.maps[bpf.LineageMapAgents].Put(comm, g); err != nil {
			return fmt.Errorf("carry agents: %w", err)
		}
		late.agents[comm] = g
	}
	t.control.setLooks(from.Looks())
	_, err = late.open(t)
	return err
}
