//go:build linux

package tracer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/takeover"
	"golang.org/x/sys/unix"
)

const (
	maxProcesses = 262144 // entries at most
	preallocated = 65536  // up to here memory for all entries is allocated at once
)

// hookVisits is how many processes a pass inside a hook may visit: at 0.07 µs for an
// outsider, and 0.4 for a member, it holds its CPU for 2 to 13 ms.
var hookVisits uint32 = 32768

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
	bpf.LineageProgTcpState,
	bpf.LineageProgSignalSent,
	bpf.LineageProgCgroupMoved,
}

// trampolines are the programs that some kernels refuse while they load the rest; each
// is tried separately.
var trampolines = []string{
	bpf.LineageProgAttachBirth,
	bpf.LineageProgNotifyDeath,
	bpf.LineageProgOrphanReparent,
	bpf.BaselineProgReleaseReaped,
}

// collection is how the programs are loaded. A test raises the verifier's log level.
var collection ebpf.CollectionOptions

// loadLineage and loadBaseline read the two objects. A test exchanges them.
var loadLineage, loadBaseline = bpf.LoadLineage, bpf.LoadBaseline

// tailored reads the programs, and reduces them to what this kernel supports and what was
// requested. The pins are named after what is left, and its configuration.
func (t *Tracer) tailored(k *kernel, ringSize int) (*ebpf.CollectionSpec, error) {
	if err := raiseMemlock(); err != nil {
		return nil, err
	}
	spec, err := t.object()
	if err != nil {
		return nil, err
	}
	for _, name := range trampolines {
		if spec.Programs[name] == nil {
			continue // only in the other object
		}
		to := spec.Programs[name].AttachTo
		if err := k.fentry(to); err != nil {
			t.features.Limits = append(t.features.Limits, fmt.Sprintf("fentry/%s: %s", to, reason(err)))
			delete(spec.Programs, name)
		}
	}
	for name, needs := range map[string][2]string{
		bpf.LineageProgTcpState:    {"btf_trace_inet_sock_set_state", "with TCP"},
		bpf.LineageProgCgroupMoved: {"btf_trace_cgroup_attach_task", "with cgroups"},
	} {
		if err := k.lacks(needs[0], needs[1]); err != nil {
			t.features.Limits = append(t.features.Limits, err.Error())
			delete(spec.Programs, name)
		}
	}
	if t.features.Level < 4 {
		delete(spec.Programs, bpf.LineageProgExitSentence)
	}
	if t.features.Level < 3 {
		delete(spec.Programs, bpf.LineageProgForkSentence)
		delete(spec.Programs, bpf.LineageProgExecSentence)
	}
	leaveOut(spec)
	return spec, t.configure(spec, ringSize)
}

// load makes a new kernel side, copies what the previous one knows, if there is one, and
// pins it. If it fails nothing is left behind, and the previous one is unchanged: attached programs
// depend on links that are closed or unpinned.
func (t *Tracer) load(k *kernel, spec *ebpf.CollectionSpec, from *takeover.Programs) error {
	if from != nil {
		if err := from.Fit(spec); err != nil {
			return fmt.Errorf("take over from %s: %w", from.Dir, err)
		}
	}
	err := t.instantiate(k, spec)
	if err == nil {
		err = t.openShared(spec)
	}
	if err != nil {
		return err
	}
	var execs map[Identity]uint64
	if from != nil {
		if execs, err = t.execs(); err == nil {
			err = errors.Join(t.carrySessions(from), t.carryHalt(from))
		}
		if err != nil {
			return fmt.Errorf("carry over %s: %w", from.Dir, err)
		}
	}
	links, err := t.attach()
	defer func() {
		for _, l := range links {
			l.Close() // pinned by now, or to be detached
		}
	}()
	if err != nil {
		return err
	}
	if from != nil {
		if err := t.carry(from, execs); err != nil {
			return fmt.Errorf("carry over %s: %w", from.Dir, err)
		}
	} else if err := t.fillSlots(); err != nil {
		return err
	}
	t.refuse(k, links)
	return t.pin(links)
}

// instantiate makes the maps and loads the programs. They do nothing yet.
func (t *Tracer) instantiate(k *kernel, spec *ebpf.CollectionSpec) error {
	options := collection
	options.Cache = k.types
	coll, err := ebpf.NewCollectionWithOptions(spec, options)
	switch {
	case err == nil:
		t.programs, t.maps = coll.Programs, coll.Maps
		return nil
	case errors.Is(err, unix.EPERM):
		err = ErrRefused.with(err.Error())
	case !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE):
		err = ErrUnfit.with(cmp.Or(k.lacksMember(spec), err.Error()))
	}
	return fmt.Errorf("load the programs: %w", err)
}

// relocation matches how the library prints a relocation: its kind, its structure, and the index
// of the member. It has no other way to them.
var relocation = regexp.MustCompile(`^CORERelocation\((byte_off|field_exists), Struct:"(\w+)"\[0:(\d+)\]`)

// lacksMember names what the programs read and this kernel's structures lack; "": nothing. The
// verifier names only an instruction. Members that are tested for may be missing, and
// structures of former kernels, such as mm_struct___v61.
func (k *kernel) lacksMember(spec *ebpf.CollectionSpec) string {
	lacks := map[string]map[string]bool{"byte_off": {}, "field_exists": {}}
	for _, p := range spec.Programs {
		for _, ins := range p.Instructions {
			var in *btf.Struct
			r := btf.CORERelocationMetadata(&ins)
			m := relocation.FindStringSubmatch(fmt.Sprint(r))
			if m == nil || strings.Contains(m[2], "___") || spec.Types.TypeByName(m[2], &in) != nil {
				continue
			}
			to, err := btf.CORERelocate([]*btf.CORERelocation{r}, []*btf.Spec{k.spec}, p.ByteOrder, spec.Types.TypeID)
			if i, _ := strconv.Atoi(m[3]); m[1] == "field_exists" ||
				err == nil && to[0].String() == "byte_off=poison" {
				lacks[m[1]]["this kernel's "+m[2]+" has no "+in.Members[i].Name] = true
			}
		}
	}
	maps.DeleteFunc(lacks["byte_off"], func(what string, _ bool) bool { return lacks["field_exists"][what] })
	return strings.Join(slices.Sorted(maps.Keys(lacks["byte_off"])), ", ")
}

func (t *Tracer) configure(spec *ebpf.CollectionSpec, ringSize int) error {
	n, err := procfs.PIDMax()
	if err != nil {
		return err
	}
	m := spec.Maps[bpf.LineageMapProcesses]
	if m.MaxEntries = min(n, maxProcesses); m.MaxEntries > preallocated {
		m.Flags |= unix.BPF_F_NO_PREALLOC
	}
	spec.Maps[bpf.LineageMapEvents].MaxEntries = uint32(ringSize)
	if !t.deaths {
		spec.Maps[bpf.LineageMapDeaths].MaxEntries = 1
	}
	config := bpf.LineageConfig{
		RingHalf: uint64(ringSize / 2), HookVisits: hookVisits,
		CanSignal: flag[uint32](t.features.Level >= 3, 1), Deaths: flag[uint32](t.deaths, 1),
		SecondWriters: flag[uint32](spec.Programs[bpf.LineageProgAttachBirth] != nil &&
			spec.Programs[bpf.LineageProgNotifyDeath] != nil, 1),
		ExactReaps: flag[uint32](spec.Programs[bpf.BaselineProgReleaseReaped] != nil, 1),
	}
	if err := spec.Variables[bpf.LineageVarConfig].Set(config); err != nil {
		return fmt.Errorf("configure the programs: %w", err)
	}
	return nil
}

// fillSlots queues the slots that have no session, and counts the others. Until then no
// session can be opened.
func (t *Tracer) fillSlots() error {
	if !t.baseline {
		return t.run(bpf.LineageProgVerbFill, &bpf.LineageVerbArgs{})
	}
	// Before 5.13 no program can walk over a map. This takes 20 ms.
	for slot := range t.slots {
		if t.slots[slot].Id != 0 {
			atomic.AddInt64(&t.control.shared.Taken, 1)
		} else if err := t.maps[bpf.LineageMapFreeSlots].Update(nil, uint32(slot), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("fill the free slots: %w", err)
		}
	}
	return nil
}

// attach attaches what is loaded, in the order in which it must run.
func (t *Tracer) attach() (map[string]link.Link, error) {
	links := map[string]link.Link{}
	for _, name := range slices.Concat(hooks, trampolines) {
		p := t.programs[name]
		if p == nil {
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return links, fmt.Errorf("attach %s: %w", name, err)
		}
		links[name] = l
	}
	return links, nil
}

// ABI names the layout of what this version pins; see [Features].
func ABI() string { return bpf.ABI() }

// Objects returns the SHA-256 of each object that this version loads, by name.
func Objects() map[string]string { return bpf.Objects() }
