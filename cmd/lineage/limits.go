package main

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
)

// limitFlags are the flags for what the kernel holds a session to. take returns nil if none was given.
func limitFlags(f *pflag.FlagSet) (take func() *api.Limits) {
	var l api.Limits
	f.Func("memory", "let all of the session use this `SIZE` of memory, with page cache; above it the kernel kills its largest process", sizeInto(&l.MemoryBytes))
	f.Func("memory-high", "slow the session down above this `SIZE` of memory", sizeInto(&l.MemoryHighBytes))
	f.Func("cpus", "let all of the session use this `NUMBER` of CPUs, such as 2.5", func(text string) (err error) {
		if l.CPUs, err = strconv.ParseFloat(text, 64); err != nil || !(l.CPUs >= 0.01 && l.CPUs <= 4096) {
			return errors.New("a number from 0.01 to 4096")
		}
		return nil
	})
	f.Func("max-tasks", "let the session have `N` threads and processes; above it forks fail", countInto(&l.Tasks, 1<<22))
	f.Func("io-weight", "the session's share of block I/O, beside 100 of others: `N`", countInto(&l.IOWeight, 10000))
	f.BoolVar(&l.IfPossible, "limits-if-possible", false, "start without the limits that this host cannot set")
	return func() *api.Limits {
		if !l.Any() && !l.IfPossible {
			return nil
		}
		return &l
	}
}

// countInto reads a number from 1 to most.
func countInto(to *int, most int) func(text string) error {
	return func(text string) (err error) {
		if *to, err = strconv.Atoi(text); err != nil || *to < 1 || *to > most {
			return errors.New("a number from 1 to " + strconv.Itoa(most))
		}
		return nil
	}
}
