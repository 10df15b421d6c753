//go:build linux

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"github.com/rs/zerolog"
)

const (
	steps = 40 // of a seed
	// patience is how long the daemon has, after the last fault, for everything that it promises: a look that lists all
	// sessions comes each 32 s.
	patience = 50 * time.Second
	// daemonPID is above all PIDs that x.next gives away.
	daemonPID = 1<<22 + 1
)

// sim is a daemon, and those after it, over one kernel and one disk. All that happens is from a seed; time is
// that of synctest.
type sim struct {
	rnd     *rand.Rand
	k       *kerneltest.Kernel
	disk    *disk
	clock   registry.Clock
	dir     string
	policy  string
	limited bool // the faults end, and are not more than the daemon promises to mend
	log     []string
	bad     atomic.Pointer[string]

	r       *registry.Registry
	e       *enforcer.Enforcer
	steward *rules.Steward
	handed  *attribution.Attribution
	gate    *gate
	store   *store
	stop    func()

	pid    uint32 // the highest
	asked  map[tracer.SessionID]bool
	let    map[tracer.SessionID]bool // dissolved
	kept   map[tracer.SessionID]bool
	missed map[tracer.Identity]tracer.SessionID
	work   map[tracer.Identity]tracer.SessionID // of a process that was handed over, the session that it works for
	within map[tracer.Identity]tracer.SessionID // where each process was seen last
	found  []tracer.Identity                    // by ends, of those that were missed

	refusing bool // the kernel fails requests

	mu       sync.Mutex // the registry's goroutine writes the following
	told     map[tracer.SessionID][]api.Verdict
	all      map[tracer.SessionID]bool // sessions that a daemon has held
	verdicts map[api.Verdict]int
}

const simAgent = "lngtest-agent"

// world is what all runs share.
type world struct {
	dir, policy string
}

func newWorld(t *testing.T) world {
	w := world{dir: t.TempDir()}
	w.policy = filepath.Join(w.dir, "policy.yaml")
	text := "version: 1\nmode: enforce\nbrokers: {end: all}\nagents:\n  - name: simulated\n    enabled: true\n    match: {comm: " + simAgent + "}\n"
	require.NoError(t, os.WriteFile(w.policy, []byte(text), 0o600))
	return w
}

func newSim(w world, seed uint64, limited bool) *sim {
	x := &sim{
		rnd: rand.New(rand.NewPCG(seed, 1)), k: kerneltest.New(), disk: newDisk(), policy: w.policy, limited: limited, pid: 1000,
		dir: filepath.Join(w.dir, strconv.FormatUint(seed, 10)), asked: make(map[tracer.SessionID]bool), let: make(map[tracer.SessionID]bool),
		kept: make(map[tracer.SessionID]bool), missed: make(map[tracer.Identity]tracer.SessionID), work: make(map[tracer.Identity]tracer.SessionID),
		within: make(map[tracer.Identity]tracer.SessionID), told: make(map[tracer.SessionID][]api.Verdict),
		all: make(map[tracer.SessionID]bool), verdicts: make(map[api.Verdict]int),
	}
	x.k.Feature.Level = []int{4, 4, 3, 2}[x.rnd.IntN(4)]
	x.k.Add(daemonPID, 1, "lngtest-daemon")
	began, first := time.Now(), x.k.Now()
	now := func() time.Duration { return x.k.Reach(first + time.Since(began)) }
	x.clock = registry.Clock{
		Monotonic: now, Boottime: func() uint64 { return uint64(now()) },
		Clock: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	return x
}

func (x *sim) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	x.bad.CompareAndSwap(nil, &text)
}

// start makes the next daemon, as daemon.Host does, without sockets and what only shows.
func (x *sim) start() error {
	x.k.Reopen()
	x.gate, x.store = &gate{Kernel: x.k, x: x}, &store{d: x.disk}
	self, err := x.gate.Identify(daemonPID)
	if err != nil {
		return err
	}
	p, err := rules.Load(x.policy, true, x.clock)
	if err != nil {
		return err
	}
	proc, log := procfs.FS(x.dir), zerolog.Nop()
	hold := func(pid uint32) (enforcer.Handle, error) { return x.k.Hold(pid) }
	e := enforcer.New(x.gate, enforcer.Options{Self: self, Clock: x.clock.Monotonic, Proc: proc, Hold: hold})
	r := registry.New(registry.Options{Kernel: x.gate, Enforcer: e, Clock: x.clock, Proc: proc, Log: log, Period: time.Second})
	ground := registry.Ground{Registry: r, Kernel: x.gate, Proc: proc, Clock: x.clock, Log: log}
	ruled := rules.Options{Ground: ground, Rules: p, Enforcer: e, Audit: func(access.AuditRecord) {}}
	steward := rules.New(ruled)
	handed := attribution.New(attribution.Options{Options: ruled, Steward: steward, Files: x.dir, Self: self})
	ring := history.NewRing(x.clock.Boottime()/1000, history.RingSize)
	recorder := history.NewRecorder(history.Options{
		Ground: ground, Ring: ring, Journal: x.store, Boot: "boot", Redact: func(argv []string) []string { return argv },
	})
	r.Attach(steward.Hooks(), handed.Hooks(), ring.Hooks(), recorder.Hooks(), x.hooks())
	steward.CarryOut(p.Policy())
	ctx, cancel := context.WithCancel(context.Background())
	go r.Run(ctx)
	end := func() { cancel(); <-r.Done() }
	if err := recorder.Remember(nil); err != nil {
		end()
		return err
	}
	if _, err := r.Resync(registry.CauseStart); err != nil {
		end()
		return err
	}
	working, rest := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, job := range []func(context.Context){
		func(ctx context.Context) { e.Run(ctx, r.Judged) }, r.Look, func(ctx context.Context) { ring.Pace(ctx, 5*time.Millisecond) },
		func(ctx context.Context) { steward.JudgeAgents(ctx, handed.Find) }, steward.KeepByRule, func(context.Context) { steward.Apply() }, handed.Run,
		func(context.Context) { _ = r.Ingest() },
	} {
		wg.Go(func() { r.Guard(func() { job(working) }) })
	}
	recorder.Begin()
	x.r, x.e, x.steward, x.handed = r, e, steward, handed
	x.stop = func() {
		rest()
		r.CloseIngest()
		_ = x.gate.CloseRead()
		wg.Wait()
		recorder.End()
		end()
		select {
		case err := <-r.Failed():
			x.fail("the daemon failed: %v", err)
		default:
		}
	}
	return nil
}

// run is one seed. The log tells what happened.
func (x *sim) run() error {
	defer os.RemoveAll(x.dir)
	if err := x.start(); err != nil {
		return err
	}
	for range 2 {
		x.create(x.k.Proc(x.add(1, "lngtest").PID))
	}
	for range steps {
		if x.step(); x.bad.Load() != nil {
			break
		}
	}
	if x.limited && x.bad.Load() == nil {
		x.settle()
	}
	x.heal()
	x.stop()
	if bad := x.bad.Load(); bad != nil {
		return errors.New(*bad)
	}
	return nil
}

func (x *sim) step() {
	act := acts[x.rnd.IntN(len(acts))]
	if act.unlimited && x.limited {
		return
	}
	x.k.Advance(time.Microsecond) // no two things happen at one time
	x.log = append(x.log, act.name+": "+act.do(x))
	if !x.chance(20) {
		synctest.Wait()
	}
	x.check()
}

func (x *sim) chance(percent int) bool { return x.rnd.IntN(100) < percent }

func (x *sim) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestSimulation: the daemon over a kernel and a disk that fail, with time that is not real. Half of the seeds have
// faults that it has to mend; in the others it may only do no harm. On one CPU a seed is always the same run. make
// simulate tries many.
func TestSimulation(t *testing.T) {
	first, n := uint64(tracertest.FromEnv(t, "LNGTEST_SEED", 1)), tracertest.FromEnv(t, "LNGTEST_SEEDS", 150)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := newWorld(t)
	began, did := time.Now(), map[string]int{}
	for seed := first; seed < first+uint64(n); seed++ {
		synctest.Test(t, func(t *testing.T) {
			x := newSim(w, seed, seed%2 == 0)
			if err := x.run(); err != nil {
				t.Errorf("LNGTEST_SEED=%d, level %d: %v, after:\n%s", seed, x.k.Feature.Level, err, strings.Join(x.log, "\n"))
			}
			for _, line := range x.log {
				name, _, _ := strings.Cut(line, ":")
				did[name]++
			}
			did["sessions"] += len(x.all)
			for verdict, n := range x.verdicts {
				did[string(verdict)] += n
			}
		})
	}
	t.Logf("figure: %d seeds in %.1f s: %v", n, time.Since(began).Seconds(), did)
}
