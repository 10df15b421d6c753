//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// VerifierStats makes the kernel report verifier statistics of the programs that are
// loaded until the returned function is called.
func VerifierStats() (back func()) {
	before := collection
	collection.Programs.LogLevel = ebpf.LogLevelStats
	return func() { collection = before }
}

// VerifierLogs are the verifier's logs of each program that this tracer loaded.
func (t *Tracer) VerifierLogs() map[string]string {
	logs := map[string]string{}
	for name, p := range t.programs {
		logs[name] = p.VerifierLog
	}
	return logs
}

// Condemn is End with grace 0, without carrying anything out. Below level 3 its members
// live on.
func (t *Tracer) Condemn(id SessionID) error {
	return t.onSession(bpf.LineageProgVerbEnd, "condemn", &bpf.LineageVerbArgs{Session: uint64(id), Cause: uint32(CauseEnd)})
}

// MarkHalted is what SetHalt does before it stores the halt.
func (t *Tracer) MarkHalted(h Halt, ends []SessionID) error { return t.markHalted(h, ends) }

// MissExecs stops the exec hook from opening sessions until the returned function is called.
func (t *Tracer) MissExecs() (back func()) {
	looks := atomic.LoadUint32(&t.control.shared.Agents)
	t.control.setLooks(0)
	return func() { t.control.setLooks(looks) }
}

// TrustedArguments returns why a kernel with these types gets the baseline.
var TrustedArguments = trustedArguments

// Trampolines returns why a kernel with these types gets no program that is attached to a function.
func Trampolines(types *btf.Spec) []error {
	k := kernel{spec: types}
	return []error{k.fentry("do_exit"), k.tryLSM()}
}

// HookVisits limits the passes of tracers that are opened until the returned function is called.
func HookVisits(n uint32) (back func()) {
	before := hookVisits
	hookVisits = n
	return func() { hookVisits = before }
}

// Bury does what the baseline's Reconcile does for an entry that its snapshot lacks.
func (t *Tracer) Bury(id Identity) (removed bool, err error) {
	args := bpf.LineageVerbArgs{Root: wireIdentity(id)}
	t.verbs.Lock()
	defer t.verbs.Unlock()
	err = t.run(bpf.BaselineProgVerbBury, &args)
	return args.Removed > 0, err
}

// Impatient makes sentences at level 2 keep the closer for one pass only, until the returned function is called.
func Impatient() (back func()) {
	before := closerLimit
	closerLimit = -1
	return func() { closerLimit = before }
}

// LoadFaults makes tracers that are opened until the returned function is called load the
// programs in which a helper can be made to fail.
func LoadFaults() (back func()) {
	lineage, baseline := loadLineage, loadBaseline
	read := func(name string) func() (*ebpf.CollectionSpec, error) {
		return func() (*ebpf.CollectionSpec, error) { return ebpf.LoadCollectionSpec("testdata/faults-" + name + ".o") }
	}
	loadLineage, loadBaseline = read("lineage"), read("baseline")
	return func() { loadLineage, loadBaseline = lineage, baseline }
}

// SpoilPrograms makes the kernel refuse a program of the levels above 2, until the returned function is called.
func SpoilPrograms() (back func()) {
	load := loadLineage
	loadLineage = func() (*ebpf.CollectionSpec, error) {
		spec, err := load()
		spec.Programs[bpf.LineageProgVerbRuns].Instructions = asm.Instructions{asm.Return()} // of an r0 that was not set
		return spec, err
	}
	return func() { loadLineage = load }
}

type faults struct {
	Calls, From, To, Failed uint64
	Places                  [4096][16]byte
}

// FailCalls makes n calls of helpers fail, and before them as many succeed as given by
// after. The calls are counted from 0 again.
func (t *Tracer) FailCalls(after, n int) error {
	return t.maps["faults"].Put(uint32(0), &faults{From: uint64(after), To: uint64(after + n)})
}

// Calls returns the places, as "classes.h:64", of the calls since FailCalls that could have
// failed, and how many did.
func (t *Tracer) Calls() (places []string, failed int, err error) {
	var f faults
	if err := t.maps["faults"].Lookup(uint32(0), &f); err != nil {
		return nil, 0, err
	}
	if f.Calls > uint64(len(f.Places)) {
		return nil, 0, fmt.Errorf("%d calls, there is room to note %d", f.Calls, len(f.Places))
	}
	for _, p := range f.Places[:f.Calls] {
		places = append(places, unix.ByteSliceToString(p[:]))
	}
	return places, int(f.Failed), nil
}

type hold struct {
	Place          [16]byte
	Most, Until    uint64
	State, Expired uint32
}

const (
	armed = iota + 1
	reached
	letGo
)

// Hold makes the first program that comes to a place, as "session.h:64", or "session.h:64+"
// after the call there, wait at most so long. The hold 0 ends when the hold 1 begins, or by LetGo.
func (t *Tracer) Hold(which uint32, place string, most time.Duration) error {
	h := hold{Most: uint64(most), State: armed}
	copy(h.Place[:], place)
	return t.maps["holds"].Put(which, &h)
}

func (t *Tracer) Held() (bool, error) {
	h, err := t.held()
	return h.State >= reached, err
}

// LetGo ends the hold 0, unless the hold 1 has. It reports whether that was too late.
func (t *Tracer) LetGo() (late bool, err error) {
	h, err := t.held()
	if err != nil || h.State == letGo || h.Expired > 0 {
		return h.Expired > 0, err
	}
	h.State = letGo
	err = t.maps["holds"].Put(uint32(0), &h)
	var now unix.Timespec
	err = errors.Join(err, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return uint64(now.Nano()) > h.Until, err
}

func (t *Tracer) held() (h hold, err error) {
	err = t.maps["holds"].Lookup(uint32(0), &h)
	return h, err
}

// Left returns how many elements the maps of processes and of what happens to them now have.
func (t *Tracer) Left() map[string]int {
	left := map[string]int{}
	for _, name := range []string{bpf.LineageMapProcesses, bpf.BaselineMapClaims} {
		if t.maps[name] == nil {
			continue
		}
		var key, value []byte
		for each := t.maps[name].Iterate(); each.Next(&key, &value); {
			left[name]++
		}
	}
	return left
}

// SentenceOnlyIn makes tracers that are opened until the returned function is called
// carry out passes in this hook only.
func SentenceOnlyIn(hook string) (back func()) {
	before := hooks
	hooks = slices.DeleteFunc(slices.Clone(hooks), func(name string) bool {
		return strings.HasSuffix(name, "_sentence") && name != hook
	})
	return func() { hooks = before }
}

// Classes returns, by class, the number of entries, and the number that the hooks
// count. A birth or reaping meanwhile is in the count for longer than in the entries.
func (t *Tracer) Classes() (entries, counted map[uint32]int, err error) {
	entries, counted = map[uint32]int{}, map[uint32]int{}
	var all bpf.LineageClasses
	if err := t.maps[bpf.LineageMapClasses].Lookup(uint32(0), &all); err != nil {
		return nil, nil, err
	}
	for class, n := range all.Entries {
		if n > 0 {
			counted[uint32(class)] = int(n)
		}
	}
	mask := uint32(len(all.Entries) - 1)
	var tgid uint32
	var e bpf.LineageEntry
	for each := t.maps[bpf.LineageMapProcesses].Iterate(); each.Next(&tgid, &e); {
		entries[tgid&mask]++
	}
	return entries, counted, nil
}

// CountReaped counts reaped processes, as a sentence of the baseline programs does for
// sessions with a limit. The other programs do it in every Settle.
func (t *Tracer) CountReaped() error {
	if !t.baseline {
		return nil
	}
	return t.reapUnmet()
}

// Instructions of a program: in its code, and visited by the verifier.
type Instructions struct{ Run, Verified int }

// Instructions returns them for every program that this tracer loaded.
func (t *Tracer) Instructions() (map[string]Instructions, error) {
	all := map[string]Instructions{}
	for name, p := range t.programs {
		info, err := p.Info()
		if err != nil {
			return nil, err
		}
		size, err := info.TranslatedSize()
		if err != nil {
			return nil, err
		}
		verified, _ := info.VerifiedInstructions() // since 5.16
		all[name] = Instructions{size / asm.InstructionSize, int(verified)}
	}
	return all, nil
}

// AttachCloser attaches what a sentence at level 2 attaches, until the result is closed.
func (t *Tracer) AttachCloser() (io.Closer, error) { return t.attachCloser() }

func (t *Tracer) LoseRecord(id SessionID) error {
	return t.maps[bpf.LineageMapSessions].Put(slotOf(id), &bpf.LineageSession{})
}

// LoseEntry removes the entry of a process, as a member with root's rights could.
func (t *Tracer) LoseEntry(pid uint32) error {
	return t.maps[bpf.LineageMapProcesses].Delete(pid)
}

// SeizeEntry leaves the entry of a process as a hook does that is about to count its
// death; giveBack undoes it.
func (t *Tracer) SeizeEntry(pid uint32) (giveBack func() error, err error) {
	m := t.maps[bpf.LineageMapProcesses]
	var e bpf.LineageEntry
	if err := m.Lookup(pid, &e); err != nil {
		return nil, err
	}
	seized := e
	seized.Start, seized.Session = 0, 0
	return func() error { return m.Put(pid, &e) }, m.Put(pid, &seized)
}

// MarkCondemned only sets the state: no pass is made, and none is due.
func (t *Tracer) MarkCondemned(id SessionID) error {
	m := t.maps[bpf.LineageMapSessionCtl]
	var c bpf.LineageCtl
	if err := m.Lookup(slotOf(id), &c); err != nil {
		return err
	}
	c.Status = uint32(StateCondemned) | uint32(CauseEnd)<<8
	return m.Put(slotOf(id), &c)
}

// Signal sends to a member as a sentence at level 2 does.
func (t *Tracer) Signal(id Identity, sig unix.Signal) error { return t.signal(id, sig) }

// KillOne kills a process that has no entry.
func (t *Tracer) KillOne(id Identity) error {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	return t.killOne(id)
}

// Demand is what the sessions of a process ask for at level 2.
var Demand = demand

// Seen is a record of the snapshot about the first process, with an entry of the second.
func Seen(p, entered Identity, session SessionID) Process {
	return process(&bpf.LineageSeen{
		Process: wireIdentity(p), Entry: bpf.LineageEntry{Start: entered.Start, Session: uint64(session), Flags: uint32(FlagProtected)},
	}, 1)
}

// BuryHalf makes the entry of a process look as while its death is counted.
func (t *Tracer) BuryHalf(pid uint32) error {
	return t.maps[bpf.LineageMapProcesses].Put(pid, &bpf.LineageEntry{Session: 7})
}

// Taken returns how many slots the hooks count as taken, after adding n.
func (t *Tracer) Taken(n int64) int64 { return atomic.AddInt64(&t.control.shared.Taken, n) }

// TakeFreeSlots empties the queue of slots that have no session.
func (t *Tracer) TakeFreeSlots() (slots []uint32, err error) {
	for {
		var slot uint32
		err := t.maps[bpf.LineageMapFreeSlots].LookupAndDelete(nil, &slot)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return slots, nil
		}
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
}
