//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

const (
	maxProcesses = 262144 // entries at most
	preallocated = 65536  // up to here the entries' memory is taken at once
)

// hooks are the programs to attach, in this order: on one tracepoint they run
// in the order of attachment, and bookkeeping comes before the sentence.
var hooks = []string{
	bpf.LineageProgForkBirth,
	bpf.LineageProgExecEvent,
	bpf.LineageProgExitDeath,
	bpf.LineageProgFreeReaped,
	bpf.LineageProgForkSentence,
	bpf.LineageProgExecSentence,
	bpf.LineageProgExitSentence,
}

// trampolines are the programs that some kernels refuse while they load the
// rest; each is tried by itself.
var trampolines = []string{
	bpf.LineageProgAttachBirth,
	bpf.LineageProgNotifyDeath,
	bpf.LineageProgOrphanReparent,
}

// onDemand are the programs that are run, not attached.
var onDemand = []string{
	bpf.LineageProgSnapshot,
	bpf.LineageProgVerbCreate,
	bpf.LineageProgVerbEnd,
	bpf.LineageProgVerbSentence,
	bpf.LineageProgVerbSettle,
	bpf.LineageProgVerbRelease,
	bpf.LineageProgVerbProtect,
	bpf.LineageProgVerbReconcile,
	bpf.LineageProgVerbMark,
	bpf.LineageProgVerbWhois,
	bpf.LineageProgSyscallCloser,
}

// load makes a new kernel side and pins it. Nothing is left behind if it
// fails: what is attached hangs on links that are closed or unpinned.
func (t *Tracer) load(k *kernel, spec *ebpf.CollectionSpec, ringSize int) error {
	optional := map[string]bool{}
	for _, name := range trampolines {
		to := spec.Programs[name].AttachTo
		if err := k.fentry(to); err != nil {
			t.features.Degraded = append(t.features.Degraded, fmt.Sprintf("fentry/%s: %s", to, reason(err)))
			delete(spec.Programs, name)
			continue
		}
		optional[name] = true
	}
	if t.features.Level < 4 {
		delete(spec.Programs, bpf.LineageProgExitSentence)
	}
	if t.features.Level < 3 {
		delete(spec.Programs, bpf.LineageProgForkSentence)
		delete(spec.Programs, bpf.LineageProgExecSentence)
	}
	if err := t.configure(spec, ringSize, optional); err != nil {
		return err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return fmt.Errorf("load the programs: %w", ErrLockdown.with(err.Error()))
		}
		return fmt.Errorf("load the programs: %w", err)
	}
	t.programs, t.maps = coll.Programs, coll.Maps
	if err := t.fillFreeSlots(); err != nil {
		return err
	}
	links, err := t.attach(optional)
	defer func() {
		for _, l := range links {
			l.Close() // pinned by now, or to be detached
		}
	}()
	if err != nil {
		return err
	}
	return t.pin(links)
}

func (t *Tracer) configure(spec *ebpf.CollectionSpec, ringSize int, optional map[string]bool) error {
	n, err := pidMax()
	if err != nil {
		return err
	}
	for _, name := range []string{bpf.LineageMapProcesses, bpf.LineageMapDead} {
		m := spec.Maps[name]
		m.MaxEntries = min(n, maxProcesses)
		if m.MaxEntries > preallocated {
			m.Flags |= unix.BPF_F_NO_PREALLOC
		}
	}
	spec.Maps[bpf.LineageMapEvents].MaxEntries = uint32(ringSize)
	config := bpf.LineageConfig{RingHalf: uint64(ringSize / 2)}
	if t.features.Level >= 3 {
		config.CanSignal = 1
	}
	if optional[bpf.LineageProgAttachBirth] && optional[bpf.LineageProgNotifyDeath] {
		config.SecondWriters = 1
	}
	if err := spec.Variables[bpf.LineageVarConfig].Set(config); err != nil {
		return fmt.Errorf("configure the programs: %w", err)
	}
	return nil
}

func (t *Tracer) fillFreeSlots() error {
	q := t.maps[bpf.LineageMapFreeSlots]
	for slot := range q.MaxEntries() {
		if err := q.Update(nil, slot, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("fill the free slots: %w", err)
		}
	}
	return nil
}

func (t *Tracer) attach(optional map[string]bool) (map[string]link.Link, error) {
	links := map[string]link.Link{}
	names := append([]string{}, hooks...)
	for _, name := range trampolines {
		if optional[name] {
			names = append(names, name)
		}
	}
	for _, name := range names {
		p := t.programs[name]
		if p == nil {
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			if optional[name] {
				t.features.Degraded = append(t.features.Degraded, fmt.Sprintf("%s: %s", name, reason(err)))
				continue
			}
			return links, fmt.Errorf("attach %s: %w", name, err)
		}
		links[name] = l
	}
	return links, nil
}

func pidMax() (uint32, error) {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0, fmt.Errorf("read pid_max: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read pid_max: %w", err)
	}
	return uint32(n), nil
}

// Pins: one directory for each ABI under dir, made under another name and
// renamed when it is complete, so that a crash in between leaves nothing that
// is taken for a kernel side.
const unfinished = "unfinished"

func (t *Tracer) pin(links map[string]link.Link) error {
	tmp := filepath.Join(t.dir, unfinished)
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove unfinished pins: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", tmp, err)
	}
	pin := func(kind, name string, p interface{ Pin(string) error }) error {
		if err := p.Pin(filepath.Join(tmp, kind+strings.TrimPrefix(name, "."))); err != nil {
			return fmt.Errorf("pin %s %s: %w", kind[:len(kind)-1], name, err)
		}
		return nil
	}
	err := func() error {
		for name, m := range t.maps {
			if err := pin(mapPin, name, m); err != nil {
				return err
			}
		}
		for name, p := range t.programs {
			if err := pin(programPin, name, p); err != nil {
				return err
			}
		}
		for name, l := range links {
			if err := pin(linkPin, name, l); err != nil {
				return err
			}
		}
		if err := os.Rename(tmp, t.abiDir()); err != nil {
			return fmt.Errorf("publish the pins: %w", err)
		}
		return nil
	}()
	if err != nil {
		os.RemoveAll(t.dir)
	}
	return err
}

const (
	mapPin     = "map_"
	programPin = "program_"
	linkPin    = "link_"
)

func (t *Tracer) abiDir() string { return filepath.Join(t.dir, t.features.ABI) }

// openPins opens a kernel side that is pinned already; false if there is none.
func (t *Tracer) openPins(spec *ebpf.CollectionSpec) (bool, error) {
	found, err := os.ReadDir(t.dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read pins: %w", err)
	}
	ours := false
	for _, d := range found {
		switch d.Name() {
		case t.features.ABI:
			ours = true
		case unfinished:
			if err := os.RemoveAll(filepath.Join(t.dir, unfinished)); err != nil {
				return false, fmt.Errorf("remove unfinished pins: %w", err)
			}
		default:
			return false, fmt.Errorf("open %s: %w: ABI %s, this one is %s; end its sessions and run: lineage daemon --unload", t.dir, ErrOtherABI, d.Name(), t.features.ABI)
		}
	}
	if !ours {
		return false, nil
	}
	for name := range spec.Maps {
		m, err := ebpf.LoadPinnedMap(filepath.Join(t.abiDir(), mapPin+strings.TrimPrefix(name, ".")), nil)
		if err != nil {
			return false, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		t.maps[name] = m
	}
	for _, names := range [][]string{hooks, onDemand, trampolines} {
		for _, name := range names {
			p, err := ebpf.LoadPinnedProgram(filepath.Join(t.abiDir(), programPin+name), nil)
			if errors.Is(err, os.ErrNotExist) && spec.Programs[name] != nil && !required(name) {
				t.noteAbsent(name, spec.Programs[name].AttachTo)
				continue
			}
			if err != nil {
				return false, fmt.Errorf("open pinned program %s: %w", name, err)
			}
			t.programs[name] = p
		}
	}
	return true, nil
}

// required says whether a kernel side without this program is broken.
func required(name string) bool {
	switch name {
	case bpf.LineageProgForkSentence, bpf.LineageProgExecSentence, bpf.LineageProgExitSentence,
		bpf.LineageProgAttachBirth, bpf.LineageProgNotifyDeath, bpf.LineageProgOrphanReparent:
		return false
	}
	return true
}

// noteAbsent lowers what this tracer promises to what is pinned: a kernel side
// keeps the level that it was loaded with.
func (t *Tracer) noteAbsent(name, attachTo string) {
	var level int
	switch name {
	case bpf.LineageProgForkSentence, bpf.LineageProgExecSentence:
		level = 2
	case bpf.LineageProgExitSentence:
		level = 3
	default:
		t.features.Degraded = append(t.features.Degraded, "fentry/"+attachTo+": refused when the kernel side was loaded")
		return
	}
	if t.features.Level > level {
		t.features.Level = level
		t.features.Missing = []string{fmt.Sprintf("the kernel side was loaded at level %d", level)}
	}
}
