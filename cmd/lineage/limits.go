package main

import (
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
)

// limitFlags are the flags for what the kernel holds a session to. take returns nil if none was given.
func limitFlags(f *pflag.FlagSet) (take func() *api.Limits) {
	var l api.Limits
	f.Func("memory", "the session's memory: `SIZE`; above it the kernel kills its largest process",
		sizeInto(&l.MemoryBytes))
	f.Func("memory-high", "slow the session down above this `SIZE` of memory", sizeInto(&l.MemoryHighBytes))
	f.Float64Var(&l.CPUs, "cpus", 0, "the session's CPUs, such as 2.5: `NUMBER`")
	f.IntVar(&l.Tasks, "max-tasks", 0, "the session's threads and processes: `N`; above it forks fail")
	f.IntVar(&l.IOWeight, "io-weight", 0, "the session's share of block I/O: `N`, 1 to 10000; others have 100")
	f.BoolVar(&l.IfPossible, "limits-if-possible", false,
		"start without the limits that this host cannot set")
	return func() *api.Limits {
		if !l.Any() && !l.IfPossible {
			return nil
		}
		return &l
	}
}
