//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// counterNames are the counters of the kernel side, by index.
var counterNames = [...]string{
	bpf.LineageCounterCOUNT_SEQ:              "events",
	bpf.LineageCounterCOUNT_LOST:             "events_lost",
	bpf.LineageCounterCOUNT_ENTER_FAILED:     "enter_failed",
	bpf.LineageCounterCOUNT_STALE:            "stale_entries",
	bpf.LineageCounterCOUNT_MISSED_BIRTH:     "missed_births",
	bpf.LineageCounterCOUNT_MISSED_DEATH:     "missed_deaths",
	bpf.LineageCounterCOUNT_RECONCILED:       "reconciled",
	bpf.LineageCounterCOUNT_SIGNAL_FAILED:    "signal_failed",
	bpf.LineageCounterCOUNT_SIGNAL_BUSY:      "signal_busy",
	bpf.LineageCounterCOUNT_NEWBORN_KILLED:   "newborn_killed",
	bpf.LineageCounterCOUNT_NEWBORN_UNKILLED: "newborn_unkilled",
	bpf.LineageCounterCOUNT_READ_FAILED:      "read_failed",
	bpf.LineageCounterCOUNT_DRIFT:            "live_drift",
	bpf.LineageCounterCOUNT_DEPTH:            "too_deep",
	bpf.LineageCounterCOUNT_DELETE_FAILED:    "delete_failed",
	bpf.LineageCounterCOUNT_AGENT_REFUSED:    "agent_refused",
	bpf.LineageCounterCOUNT_FORK_REFUSED:     "fork_refused",
	bpf.LineageCounterCOUNT_SELF_DENIED:      "self_denied",
	bpf.LineageCounterCOUNT_NO_SESSION:       "no_session",
	bpf.LineageCounterCOUNT_LISTEN_FAILED:    "listen_failed",
	bpf.LineageCounterCOUNT_LISTEN_LIMITED:   "listen_limited",
	bpf.LineageCounterCOUNT_SENDER_FAILED:    "sender_failed",
	bpf.LineageCounterCOUNT_STOP_LIMITED:     "stop_limited",
	bpf.LineageCounterCOUNT_AGENT_HALTED:     "agents_halted",
	bpf.LineageCounterCOUNT_SIGNAL_OUTSIDE:   "signals_outside",
	bpf.LineageCounterCOUNT_SIGNAL_REFUSED:   "signals_refused",
	bpf.LineageCounterCOUNT_CROSSING_LIMITED: "crossing_limited",
	bpf.LineageCounterCOUNT_MOVED_LIMITED:    "moved_limited",
}

// Counters returns the kernel side's counters since it was loaded, and events_malformed
// of this tracer.
func (t *Tracer) Counters() (map[string]uint64, error) {
	all := make(map[string]uint64, len(counterNames)+1)
	cpus := ebpf.MustPossibleCPU()
	perCPU := make([]uint64, cpus*len(counterNames))
	var at ebpf.MapBatchCursor
	keys := make([]uint32, len(counterNames))
	_, err := t.maps[bpf.LineageMapCounters].BatchLookup(&at, keys, perCPU, nil)
	done := err == nil || errors.Is(err, ebpf.ErrKeyNotExist) // all were read; the kernel has no batches before 5.13
	for i, name := range counterNames {
		if all[name] = sum(perCPU[i*cpus:][:cpus]); done {
			continue
		}
		if all[name], err = t.counter(uint32(i)); err != nil {
			return nil, err
		}
	}
	all["events_malformed"] = t.reader.malformed.Load()
	return all, nil
}

func (t *Tracer) counter(i uint32) (uint64, error) {
	var perCPU []uint64
	if err := t.maps[bpf.LineageMapCounters].Lookup(i, &perCPU); err != nil {
		return 0, fmt.Errorf("read counter %s: %w", counterNames[i], err)
	}
	return sum(perCPU), nil
}

func sum(all []uint64) (n uint64) {
	for _, x := range all {
		n += x
	}
	return n
}

func (t *Tracer) lost() (uint64, error) {
	return t.counter(uint32(bpf.LineageCounterCOUNT_LOST))
}

// harmless are the programs that may be skipped without a birth or a death missed.
var harmless = []string{bpf.LineageProgTcpState, bpf.LineageProgSignalSent, bpf.LineageProgCgroupMoved}

// RecursionMisses returns, for each attached program that was skipped, how often: it was due
// while it already ran on that CPU. A skip of a fork or exit program is a missed birth or
// death, and calls for Reconcile. Needs 5.12. The program on TCP states is left out: the
// kernel also changes states of connections in interrupts, and skips it there while it runs;
// but what begins to listen is always a process. So is that on signals, which only says who sent them.
func (t *Tracer) RecursionMisses() (map[string]uint64, error) {
	stats, err := t.Stats()
	if err != nil {
		return nil, err
	}
	missed := map[string]uint64{}
	for name, s := range stats {
		if s.RecursionMisses > 0 && !slices.Contains(harmless, name) {
			missed[name] = s.RecursionMisses
		}
	}
	return missed, nil
}

// Stats returns the kernel's statistics of each attached program. Run times and counts
// change only while BPF statistics are on, see [ebpf.EnableStats].
func (t *Tracer) Stats() (map[string]*ebpf.ProgramStats, error) { return t.stats(hooks) }

func (t *Tracer) stats(names []string) (map[string]*ebpf.ProgramStats, error) {
	stats := map[string]*ebpf.ProgramStats{}
	for _, name := range names {
		p := t.programs[name]
		if p == nil {
			continue
		}
		s, err := p.Stats()
		if err != nil {
			return nil, fmt.Errorf("read the statistics of %s: %w", name, err)
		}
		stats[name] = s
	}
	return stats, nil
}

// Runs tells which attached programs have run since [Tracer.WatchRuns].
type Runs struct {
	Idle  func() ([]string, error) // names those that have not
	Close func() error
}

// WatchRuns has the kernel count the runs of programs, until Close. Each run on the host costs 80 ns more
// meanwhile. The programs on TCP states and on moves are left out, as are those of self-protection. Needs CAP_SYS_ADMIN. Minimum
// kernel 5.10.
func (t *Tracer) WatchRuns() (Runs, error) {
	statistics, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return Runs{}, fmt.Errorf("count the runs of programs: %w", err)
	}
	watched := slices.Concat(hooks, trampolines, forkRefusal.programs[:], signalRefusal.programs[:])
	before, err := t.stats(watched)
	if err != nil {
		return Runs{}, errors.Join(err, statistics.Close())
	}
	return Runs{Close: statistics.Close, Idle: func() (names []string, err error) {
		now, err := t.stats(watched)
		for name, s := range now {
			if s.RunCount == before[name].RunCount && name != bpf.LineageProgTcpState && name != bpf.LineageProgCgroupMoved {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names, err
	}}, nil
}
