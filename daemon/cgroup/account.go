//go:build linux

package cgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Check says what is wrong with limits that a user asks for.
func Check(l *api.Limits) error {
	bad := func(name string, v any, must string) error {
		return fmt.Errorf("invalid limits.%s %v: must be %s", name, v, must)
	}
	for name, n := range map[string]int64{"memory_bytes": l.MemoryBytes, "memory_high_bytes": l.MemoryHighBytes} {
		if n != 0 && (n < 1<<20 || n > api.MaxLimit) {
			return bad(name, n, "1048576 (1MiB) or more")
		}
	}
	switch {
	case l.CPUs != 0 && !(l.CPUs >= 0.01 && l.CPUs <= 4096):
		return bad("cpus", l.CPUs, "0.01 to 4096")
	case l.Tasks < 0 || l.Tasks > math.MaxInt32:
		return bad("tasks", l.Tasks, "1 or more")
	case l.IOWeight < 0 || l.IOWeight > 10000:
		return bad("io_weight", l.IOWeight, "1 to 10000")
	}
	return nil
}

// limitsOf reads which limits are in force.
func limitsOf(mount, group string) (l api.Limits) {
	l.MemoryBytes = int64(number(mount, group, "memory.max", ""))
	l.MemoryHighBytes = int64(number(mount, group, "memory.high", ""))
	l.Tasks = int(number(mount, group, "pids.max", ""))
	var quota, of float64
	if n, _ := fmt.Sscan(value(mount, group, "cpu.max"), &quota, &of); n == 2 && of > 0 {
		l.CPUs = quota / of
	}
	if n := int(number(mount, group, "io.weight", "default")); n != 100 {
		l.IOWeight = n
	}
	if bfq := number(mount, group, "io.bfq.weight", "default"); l.IOWeight != 0 && (bfq == 0 || bfq == 100) &&
		!strings.Contains(value(mount, "/", "io.cost.qos"), "enable=1") {
		l.Unset = []string{"io_weight: no disk is known to use iocost or BFQ"}
	}
	return l
}

// accountOf reads what a group has used, and what memory it uses now.
func accountOf(mount, group string) (a api.Account, current uint64) {
	a.CPUSeconds = float64(number(mount, group, "cpu.stat", "usage_usec")) / 1e6
	a.MemoryPeakBytes = number(mount, group, "memory.peak", "")
	a.TasksPeak = int(number(mount, group, "pids.peak", ""))
	a.OOMKills = int(number(mount, group, "memory.events", "oom_kill"))
	for word := range strings.FieldsSeq(value(mount, group, "io.stat")) {
		key, text, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseUint(text, 10, 64) // of other keys, or of the number of a device: not used
		switch key {
		case "rbytes":
			a.ReadBytes += n
		case "wbytes":
			a.WrittenBytes += n
		}
	}
	current = number(mount, group, "memory.current", "")
	a.MemoryBytes = current - min(current, number(mount, group, "memory.stat", "inactive_file"))
	return a, current
}

// number is the number after a key at the beginning of a line, "": of the first line. 0: there is none, or "max".
func number(mount, group, file, key string) uint64 {
	for line := range strings.Lines(value(mount, group, file)) {
		if text, ok := strings.CutPrefix(line, key); ok && (key == "" || strings.HasPrefix(text, " ")) {
			n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}

// inside has the PIDs in a group and in those below it.
func inside(mount, group string) map[int]bool {
	pids := make(map[int]bool)
	for dir := range walk(mount, group) {
		for word := range strings.FieldsSeq(value(mount, dir, "cgroup.procs")) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids[pid] = true
			}
		}
	}
	return pids
}

// maxWalked bounds a walk through cgroups.
const maxWalked = 1 << 16

// walk yields a cgroup and those below it that are root's, from the outside in.
func walk(mount, group string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		all := []string{group}
		for i := 0; i < len(all) && i < maxWalked; i++ {
			if !yield(all[i]) {
				return
			}
			below, _ := os.ReadDir(filepath.Join(mount, all[i])) // it may be gone by now
			for _, d := range below {
				path := filepath.Join(all[i], d.Name())
				if d.IsDir() && owned(mount, path) {
					all = append(all, path)
				}
			}
		}
	}
}

// take takes what was read.
func (x *group) take(a api.Account, current uint64) {
	x.peak = max(x.peak, current)
	if a.MemoryPeakBytes == 0 && x.peak > 0 {
		a.MemoryPeakBytes, a.Sampled = x.peak, true
	}
	x.account = &a
}
