//go:build linux

package takeover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/lineage"
)

// Programs are what another version, or another configuration, has loaded and pinned. Their
// maps are read by means of the type information that the kernel keeps with them.
type Programs struct {
	Dir string // where they are pinned

	pin       func(name string) string
	processes *ebpf.Map
	sessions  *ebpf.Map
	ctl       *ebpf.Map

	ours    *btf.Spec // our types
	layout  bpf.LineageElderLayout
	session Copier
	control Copier
}

// Open opens the maps of the programs that are pinned in dir; pin is the path of a map. An
// error that is [os.ErrNotExist]: maps are not pinned, so there are no sessions to read.
func Open(dir string, pin func(name string) string) (*Programs, error) {
	p := &Programs{Dir: dir, pin: pin}
	if err := p.open(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the maps. p may be nil.
func (p *Programs) Close() {
	if p == nil {
		return
	}
	for _, m := range []*ebpf.Map{p.processes, p.sessions, p.ctl} {
		m.Close()
	}
}

// load opens one of their maps.
func (p *Programs) load(name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(p.pin(name), nil)
	if err != nil {
		return nil, fmt.Errorf("open map %s: %w", name, err)
	}
	return m, nil
}

func (p *Programs) open() error {
	for name, m := range map[string]**ebpf.Map{
		bpf.LineageMapProcesses: &p.processes, bpf.LineageMapSessions: &p.sessions, bpf.LineageMapSessionCtl: &p.ctl,
	} {
		var err error
		if *m, err = p.load(name); err != nil {
			return err
		}
	}
	if _, err := os.Stat(p.pin("dead")); err == nil {
		return errors.New("the dead are in a map of their own there")
	}
	spec, err := bpf.LoadLineage()
	if err != nil {
		return fmt.Errorf("read the BPF object: %w", err)
	}
	p.ours = spec.Types
	for _, x := range []struct {
		of     *ebpf.Map
		name   string
		copier *Copier
		needed []string
	}{
		{p.sessions, "session", &p.session, []string{"id", "parent", "root", "owner", "created"}},
		{p.ctl, "ctl", &p.control, []string{"id", "status", "flags", "grace", "deadline", "expires", "uid", "name"}},
	} {
		if *x.copier, err = p.copier(x.of, x.name, x.needed...); err != nil {
			return err
		}
	}
	entry, err := StructOf(p.processes, "entry")
	if err != nil {
		return err
	}
	return p.lay(entry)
}

// copier converts a struct in one of their maps to ours.
func (p *Programs) copier(of *ebpf.Map, name string, needed ...string) (Copier, error) {
	theirs, err := StructOf(of, name)
	if err != nil {
		return Copier{}, err
	}
	var ours *btf.Struct
	if err := p.ours.TypeByName(name, &ours); err != nil {
		return Copier{}, fmt.Errorf("struct %s: %w", name, err)
	}
	return NewCopier(theirs, ours, needed...)
}

// lay finds the offsets of the fields in their entries.
func (p *Programs) lay(entry *btf.Struct) error {
	at := map[string]*uint32{
		"start": &p.layout.Start, "session": &p.layout.Session, "since": &p.layout.Since,
		"creator": &p.layout.Creator, "flags": &p.layout.Flags, "evidence": &p.layout.Evidence,
	}
	for _, m := range entry.Members {
		if size, err := btf.Sizeof(m.Type); m.Name == "exe" && err == nil &&
			size == int(unsafe.Sizeof(bpf.LineageFileId{})) {
			p.layout.Exe, p.layout.KnowsExe = m.Offset.Bytes(), 1
		}
		if offset := at[m.Name]; offset != nil {
			*offset = m.Offset.Bytes()
			delete(at, m.Name)
		}
	}
	for name := range at {
		return fmt.Errorf("struct entry has no %s there", name)
	}
	p.layout.Present = 1
	return nil
}

// Fit adapts the programs of spec to this map of processes.
func (p *Programs) Fit(spec *ebpf.CollectionSpec) error {
	inner := spec.Maps[bpf.LineageMapElder].InnerMap
	inner.MaxEntries, inner.Flags, inner.ValueSize = p.processes.MaxEntries(), p.processes.Flags(), p.processes.ValueSize()
	// Up to 6.1 the template counts as equal only if it has a type too.
	value, err := StructOf(p.processes, "entry")
	if err != nil {
		return err
	}
	inner.Value = value
	return spec.Variables[bpf.LineageVarElderLayout].Set(p.layout)
}

// Processes is the map of processes, which the programs that were made to [Programs.Fit] read.
func (p *Programs) Processes() *ebpf.Map { return p.processes }

// Sessions calls do for every session, in our layout and with the counts of members at 0.
func (p *Programs) Sessions(do func(slot uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error) error {
	return EachValue(p.sessions, func(slot uint32, value []byte) error {
		var s bpf.LineageSession
		var c bpf.LineageCtl
		if err := Into(p.session, value, &s); err != nil {
			return fmt.Errorf("read slot %d: %w", slot, err)
		}
		if s.Id == 0 {
			return nil
		}
		value, err := p.ctl.LookupBytes(slot)
		if err == nil {
			err = Into(p.control, value, &c)
		}
		if err != nil {
			return fmt.Errorf("read slot %d: %w", slot, err)
		}
		if s.Id != c.Id || uint32(s.Id) != slot {
			return nil // being made or released when its daemon died
		}
		s.Live, s.Dying, s.Held = 0, 0, 0
		return do(slot, &s, &c)
	})
}

// Inhabited returns the sessions of the entries, each with the sessions that it is
// nested in. Counts may have drifted; entries cannot.
func (p *Programs) Inhabited() (map[uint64]bool, error) {
	parents := map[uint64]uint64{}
	err := p.Sessions(func(_ uint32, s *bpf.LineageSession, _ *bpf.LineageCtl) error {
		parents[s.Id] = s.Parent
		return nil
	})
	if err != nil {
		return nil, err
	}
	in := map[uint64]bool{}
	each := p.processes.Iterate()
	var pid uint32
	var value []byte
	for each.Next(&pid, &value) {
		for id := p.word(value, p.layout.Session); id != 0 && !in[id]; id = parents[id] {
			in[id] = true
		}
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("list the entries: %w", err)
	}
	return in, nil
}

func (p *Programs) Has(id lineage.ID) bool {
	value, err := p.processes.LookupBytes(id.PID)
	return err == nil && p.word(value, p.layout.Start) == id.Start && p.word(value, p.layout.Session) != 0
}

// word returns the 64-bit field at an offset in an entry.
func (p *Programs) word(value []byte, at uint32) uint64 {
	if uint64(at)+8 > uint64(len(value)) {
		return 0
	}
	return binary.NativeEndian.Uint64(value[at:])
}

// These are ENTRY_DEAD, ENTRY_TEARING and SESSION_DEAD of bpf/lineage.h.
const (
	EntryDead    = 1 << 63
	entryTearing = 1 << 62
	sessionDead  = 1 << 63
)

// Dead reads the start and the session of an entry whose process is dead, and was not waited for; start 0: it is
// none. dying: its memory, files and ports may not be gone.
func Dead(word, of uint64) (start, session uint64, dying bool) {
	if word&EntryDead == 0 {
		return 0, 0, false
	}
	return word & (entryTearing - 1), of &^ sessionDead, word&entryTearing != 0
}

// Dead calls do for every dead process that its parent has not waited for.
func (p *Programs) Dead(do func(id lineage.ID, session uint64, dying bool) error) error {
	each := p.processes.Iterate()
	var pid uint32
	var value []byte
	for each.Next(&pid, &value) {
		start, session, dying := Dead(p.word(value, p.layout.Start), p.word(value, p.layout.Session))
		if start == 0 {
			continue
		}
		if err := do(lineage.ID{PID: pid, Start: start}, session, dying); err != nil {
			return err
		}
	}
	return ended(each)
}

// ended returns how a walk over a map that changes meanwhile ended.
func ended(each *ebpf.MapIterator) error {
	if err := each.Err(); !errors.Is(err, ebpf.ErrIterationAborted) {
		return err
	}
	return nil
}
