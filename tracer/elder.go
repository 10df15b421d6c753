//go:build linux

package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/bpfmap"
	"golang.org/x/sys/unix"
)

// elder is a pinned kernel side that is not ours: from another version, or configured
// differently. Its maps are read by means of the type information that the kernel keeps
// with them.
type elder struct {
	dir       string
	processes *ebpf.Map
	dead      *ebpf.Map
	sessions  *ebpf.Map
	ctl       *ebpf.Map

	layout   bpf.LineageElderLayout
	session  bpfmap.Copier
	control  bpfmap.Copier
	corpse   bpfmap.Copier
	identity bpfmap.Copier
}

// openElder opens the first of the named directories of pins. Nil: there is none, or
// its maps are not pinned, so it has no sessions to read. [ErrOtherABI]: the maps are
// pinned but cannot be read.
func openElder(dir string, names []string) (*elder, error) {
	for _, name := range names {
		e := &elder{dir: filepath.Join(dir, name)}
		err := e.open()
		if errors.Is(err, os.ErrNotExist) {
			e.close()
			continue
		}
		if err != nil {
			e.close()
			return nil, fmt.Errorf("take over from %s: %w: %w", e.dir, ErrOtherABI, err)
		}
		return e, nil
	}
	return nil, nil
}

func (e *elder) close() {
	if e == nil {
		return
	}
	for _, m := range []*ebpf.Map{e.processes, e.dead, e.sessions, e.ctl} {
		m.Close()
	}
}

func (e *elder) open() error {
	for name, m := range map[string]**ebpf.Map{
		bpf.LineageMapProcesses: &e.processes, bpf.LineageMapDead: &e.dead,
		bpf.LineageMapSessions: &e.sessions, bpf.LineageMapSessionCtl: &e.ctl,
	} {
		var err error
		if *m, err = ebpf.LoadPinnedMap(pinPath(e.dir, mapPin, name), nil); err != nil {
			return fmt.Errorf("open map %s: %w", name, err)
		}
	}
	spec, err := bpf.LoadLineage()
	if err != nil {
		return fmt.Errorf("read the BPF object: %w", err)
	}
	for _, x := range []struct {
		of     *ebpf.Map
		name   string
		copier *bpfmap.Copier
		needed []string
	}{
		{e.sessions, "session", &e.session, []string{"id", "parent", "root", "owner", "created"}},
		{e.ctl, "ctl", &e.control, []string{"id", "status", "flags", "grace", "deadline", "expires", "uid", "name"}},
		{e.dead, "dead_entry", &e.corpse, []string{"mark", "session"}},
		{e.dead, "identity", &e.identity, []string{"start", "tgid"}},
	} {
		theirs, err := bpfmap.StructOf(x.of, x.name)
		if err != nil {
			return err
		}
		var ours *btf.Struct
		if err := spec.Types.TypeByName(x.name, &ours); err != nil {
			return fmt.Errorf("struct %s: %w", x.name, err)
		}
		if *x.copier, err = bpfmap.NewCopier(theirs, ours, x.needed...); err != nil {
			return err
		}
	}
	entry, err := bpfmap.StructOf(e.processes, "entry")
	if err != nil {
		return err
	}
	return e.lay(entry)
}

// lay finds the offsets of the fields in the elder's entries.
func (e *elder) lay(entry *btf.Struct) error {
	at := map[string]*uint32{
		"start": &e.layout.Start, "session": &e.layout.Session, "since": &e.layout.Since,
		"creator": &e.layout.Creator, "flags": &e.layout.Flags, "evidence": &e.layout.Evidence,
	}
	for _, m := range entry.Members {
		if size, err := btf.Sizeof(m.Type); m.Name == "exe" && err == nil && size == int(unsafe.Sizeof(bpf.LineageFileId{})) {
			e.layout.Exe, e.layout.KnowsExe = m.Offset.Bytes(), 1
		}
		if offset := at[m.Name]; offset != nil {
			*offset = m.Offset.Bytes()
			delete(at, m.Name)
		}
	}
	for name := range at {
		return fmt.Errorf("struct entry has no %s there", name)
	}
	e.layout.Present = 1
	return nil
}

// fit adapts the programs to the elder's map of processes.
func (e *elder) fit(spec *ebpf.CollectionSpec) error {
	inner := spec.Maps[bpf.LineageMapElder].InnerMap
	inner.MaxEntries, inner.Flags, inner.ValueSize = e.processes.MaxEntries(), e.processes.Flags(), e.processes.ValueSize()
	// Up to 6.1 the template counts as equal only if it has a type too.
	value, err := bpfmap.StructOf(e.processes, "entry")
	if err != nil {
		return fmt.Errorf("take over from %s: %w", e.dir, err)
	}
	inner.Value = value
	if err := spec.Variables[bpf.LineageVarElderLayout].Set(e.layout); err != nil {
		return fmt.Errorf("take over from %s: %w", e.dir, err)
	}
	return nil
}

// each calls do for every session of the elder, in our layout and with the counts of members at 0.
func (e *elder) each(do func(slot uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error) error {
	return bpfmap.EachValue(e.sessions, func(slot uint32, value []byte) error {
		var s bpf.LineageSession
		var c bpf.LineageCtl
		if err := bpfmap.Into(e.session, value, &s); err != nil {
			return fmt.Errorf("read slot %d: %w", slot, err)
		}
		if s.Id == 0 {
			return nil
		}
		value, err := e.ctl.LookupBytes(slot)
		if err == nil {
			err = bpfmap.Into(e.control, value, &c)
		}
		if err != nil {
			return fmt.Errorf("read slot %d: %w", slot, err)
		}
		if s.Id != c.Id || slotOf(SessionID(s.Id)) != slot {
			return nil // being made or released when its daemon died
		}
		s.Live, s.Dying, s.Unreaped = 0, 0, 0
		return do(slot, &s, &c)
	})
}

// putSessions adds those of the elder's sessions that ours does not have yet, in the
// state "free": it has no effect, and members can be counted.
func (e *elder) putSessions(t *Tracer) error {
	sessions, ctl := t.maps[bpf.LineageMapSessions], t.maps[bpf.LineageMapSessionCtl]
	return e.each(func(slot uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error {
		var have bpf.LineageSession
		if slot >= sessions.MaxEntries() {
			return fmt.Errorf("session %v: slot %d is not one of our %d", SessionID(s.Id), slot, sessions.MaxEntries())
		}
		if err := sessions.Lookup(slot, &have); err != nil {
			return fmt.Errorf("session %v: %w", SessionID(s.Id), err)
		}
		if have.Id == s.Id {
			return nil
		}
		c.Status = uint32(StateFree)
		if err := errors.Join(ctl.Put(slot, c), sessions.Put(slot, s)); err != nil {
			return fmt.Errorf("session %v: %w", SessionID(s.Id), err)
		}
		return nil
	})
}

// carry copies everything that the elder knows to ours, whose hooks already run beside the
// elder's: first its members, then their sessions' states. names are the names of all processes
// before our hooks ran.
func (t *Tracer) carry(from *elder, names map[Identity]Comm) (err error) {
	m := t.maps[bpf.LineageMapElder]
	if err := m.Put(uint32(0), from.processes); err != nil {
		return fmt.Errorf("show its processes: %w", err)
	}
	if _, err := t.untilSettled(bpf.LineageProgVerbCarry, bpf.LineageVerbArgs{}); err != nil {
		return err
	}
	// The elder's exec hook has opened sessions meanwhile: copy these and their members, too.
	agents, err := from.stopAgents(names)
	if err != nil {
		return err
	}
	defer agents.close()
	defer func() {
		if err != nil {
			agents.resume()
		}
	}()
	// An update of this kind of map waits for running programs: after it, elder hooks
	// that had not seen the stop are finished.
	if err := m.Put(uint32(0), from.processes); err != nil {
		return fmt.Errorf("show its processes: %w", err)
	}
	if err := from.putSessions(t); err != nil {
		return err
	}
	if _, err := t.untilSettled(bpf.LineageProgVerbCarry, bpf.LineageVerbArgs{}); err != nil {
		return err
	}
	// Until here the elder's own hooks have carried out its ends.
	if err := t.carryStates(from); err != nil {
		return err
	}
	if err := t.fillSlots(); err != nil {
		return err
	}
	if err := agents.carryTo(t); err != nil {
		return err
	}
	if err := errors.Join(t.carryDead(from), from.listenersTo(t)); err != nil {
		return err
	}
	if err := m.Delete(uint32(0)); err != nil {
		return fmt.Errorf("let go of its processes: %w", err)
	}
	// What fell due while neither side acted on it.
	return t.run(bpf.LineageProgVerbSentence, &bpf.LineageVerbArgs{})
}

// carryStates copies what the elder has decided about its sessions. Until then our side
// opens and nests no session.
func (t *Tracer) carryStates(from *elder) error {
	ctl := t.maps[bpf.LineageMapSessionCtl]
	nested := map[uint64]uint32{}
	ofAgents := map[uint32]int64{} // by uid
	states := map[uint32]*bpf.LineageCtl{}
	err := from.each(func(slot uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error {
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
		if c.Status == uint32(StateEmpty)|uint32(CauseReleased)<<8 { // as earlier versions store it
			c.Status = uint32(StateDissolved) | uint32(CauseReleased)<<8
		}
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

func (t *Tracer) carryDead(from *elder) error {
	each := from.dead.Iterate()
	var key, value []byte
	for each.Next(&key, &value) {
		var id bpf.LineageIdentity
		var d bpf.LineageDeadEntry
		if err := errors.Join(bpfmap.Into(from.identity, key, &id), bpfmap.Into(from.corpse, value, &d)); err != nil {
			return fmt.Errorf("carry the dead: %w", err)
		}
		args := bpf.LineageVerbArgs{Root: id, Session: d.Session, Flags: uint32(d.Mark & 1)}
		if err := t.run(bpf.LineageProgVerbCarryDead, &args); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("carry the dead: %w", err)
	}
	return nil
}

// inhabited returns the sessions of the elder's entries, each with the sessions that it is
// nested in. Counts may have drifted; entries cannot.
func (e *elder) inhabited() (map[uint64]bool, error) {
	parents := map[uint64]uint64{}
	err := e.each(func(_ uint32, s *bpf.LineageSession, _ *bpf.LineageCtl) error {
		parents[s.Id] = s.Parent
		return nil
	})
	if err != nil {
		return nil, err
	}
	in := map[uint64]bool{}
	each := e.processes.Iterate()
	var pid uint32
	var value []byte
	for each.Next(&pid, &value) {
		for id := e.word(value, e.layout.Session); id != 0 && !in[id]; id = parents[id] {
			in[id] = true
		}
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("list the entries: %w", err)
	}
	return in, nil
}

// has reports whether the process is a member of one of the elder's sessions.
func (e *elder) has(p Identity) bool {
	value, err := e.processes.LookupBytes(p.PID)
	return err == nil && e.word(value, e.layout.Start) == p.Start && e.word(value, e.layout.Session) != 0
}

// word returns the 64-bit field at an offset in an entry.
func (e *elder) word(value []byte, at uint32) uint64 {
	if uint64(at)+8 > uint64(len(value)) {
		return 0
	}
	return binary.NativeEndian.Uint64(value[at:])
}
