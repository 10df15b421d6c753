//go:build linux

package tracer

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// DefaultRingSize is the ring buffer's size in bytes. It counts twice in RSS.
const DefaultRingSize = 8 << 20

// Options say where and how to trace.
type Options struct {
	Dir      string // of the pins, on a bpffs; its parent must exist
	RingSize int    // bytes, a power of two and at least a page; 0: DefaultRingSize
	Level    int    // at most this guarantee level; 0: the best that this kernel has
	// Baseline takes the programs for kernels before 6.9 on a later one too.
	// They give level 2 at most.
	Baseline bool
	// Deaths has [Tracer.Deaths] know processes in no session that a signal kills.
	Deaths bool
}

// Tracer is a loaded kernel side. Read is for one goroutine; all other methods may be
// called from any, and must return before Close.
type Tracer struct {
	dir      string
	pins     string // the name of our pins in dir
	features Features
	deaths   bool // [Options].Deaths
	baseline bool // the programs are bpf/baseline.bpf.c, whose verbs are walks
	programs map[string]*ebpf.Program
	maps     map[string]*ebpf.Map
	control  control
	slots    []bpf.LineageSession // the sessions, mapped: only ids are read here
	reader   *reader

	// verbs guards the verb map and the snapshot's filter, which hold one request at a
	// time.
	verbs sync.Mutex
	// passes is held while members are signalled from user space.
	passes sync.Mutex

	late struct {
		sync.Mutex
		lateAgents
	}
}

// Open returns the tracer whose pins are in o.Dir, or loads, attaches and pins a new
// one. Hooks, maps and sessions outlive Close and the process.
//
// Pins of another version, of other options, or of a host with another pid_max are
// taken over: their sessions continue under the same ids, and both kernel sides trace
// until the new one knows all of their members.
//
// The error matches ErrUnsupported if this host cannot be traced, and ErrOtherABI if
// the pins cannot be read. Minimum kernel 5.10.
func Open(o Options) (*Tracer, error) {
	err := cmp.Or(checkRoot(), checkCapabilities(), checkPIDNamespace(),
		checkBTF(), checkBPFFS(o.Dir), checkLockdown())
	if err != nil {
		return nil, err
	}
	o.RingSize = cmp.Or(o.RingSize, DefaultRingSize)
	if o.RingSize < os.Getpagesize() || o.RingSize&(o.RingSize-1) != 0 {
		return nil, fmt.Errorf("ring size %d: must be a power of two, at least %d",
			o.RingSize, os.Getpagesize())
	}
	k, err := probeKernel()
	if err != nil {
		return nil, err
	}
	if o.Baseline {
		k.signals, k.tasks = errNotAskedFor, errNotAskedFor
	}
	var t *Tracer
	refused, err := k.orBaseline(func() error {
		t = k.tracer(o.Dir)
		t.deaths = o.Deaths
		switch f := &t.features; {
		case o.Level == 0 || o.Level >= f.Level:
		case o.Level >= 2:
			f.Level, f.Missing = o.Level, []string{fmt.Sprintf("level %d was not requested", o.Level+1)}
		default:
			return fmt.Errorf("level %d: this version has levels 2 to 4", o.Level)
		}
		err := t.openOrLoad(k, o.RingSize)
		if err != nil {
			t.closeObjects()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.degrade("only the programs of level 2 could be loaded", refused)
	t.degrade("all times are wrong", procfs.TimeNamespace())
	return t, nil
}

func (t *Tracer) degrade(what string, why error) {
	if why != nil {
		t.features.Degraded = append(t.features.Degraded, what+": "+why.Error())
	}
}

// orBaseline lets do load programs, and, if this kernel refuses the programs of its level, once
// more with the baseline programs. refused says why then.
func (k *kernel) orBaseline(do func() error) (refused, err error) {
	err = do()
	if k.tasks == nil && (errors.Is(err, ErrUnfit) || errors.Is(err, ErrRefused)) {
		refused = err
		k.tasks, k.signals = refused, refused
		err = do()
	}
	return refused, err
}

// tracer is one without programs, of the best level.
func (k *kernel) tracer(dir string) *Tracer {
	level, missing := k.level()
	return &Tracer{
		dir: dir, programs: map[string]*ebpf.Program{}, maps: map[string]*ebpf.Map{},
		baseline: k.tasks != nil, features: Features{Level: level, Missing: missing, ABI: bpf.ABI()},
	}
}

// object reads the BPF object for this kernel.
func (t *Tracer) object() (*ebpf.CollectionSpec, error) {
	load := loadLineage
	if t.baseline {
		load = loadBaseline
	}
	spec, err := load()
	if err != nil {
		return nil, fmt.Errorf("read the BPF object: %w", err)
	}
	return spec, nil
}

func (t *Tracer) openOrLoad(k *kernel, ringSize int) error {
	spec, err := t.tailored(k, ringSize)
	if err != nil {
		return err
	}
	if t.pins, err = pinsName(spec); err != nil {
		return err
	}
	missed, err := t.openPins(k, spec)
	if err != nil {
		return err
	}
	t.control.setAdopting(0, 0) // the process that began an adoption is dead
	if missed {
		if _, _, err := t.Reconcile(); err != nil {
			return err
		}
	}
	rd, err := ringbuf.NewReader(t.maps[bpf.LineageMapEvents])
	if err != nil {
		return fmt.Errorf("open the ring buffer: %w", err)
	}
	t.reader = newReader(rd, t.control, t.lost)
	return nil
}

func (t *Tracer) Features() Features {
	f := t.features
	f.SecondWriters = t.programs[bpf.LineageProgAttachBirth] != nil &&
		t.programs[bpf.LineageProgNotifyDeath] != nil
	return f
}

// Close releases the kernel side, after CloseRead; no other call may be running. What
// is pinned keeps running.
func (t *Tracer) Close() error {
	err := errors.Join(t.CloseRead(), t.reader.ring.Close())
	t.closeObjects()
	return err
}

func (t *Tracer) closeObjects() {
	for _, p := range t.programs {
		p.Close()
	}
	for _, m := range t.maps {
		m.Close()
	}
}
