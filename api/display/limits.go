package display

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Account says on one line what a session has used, and of what; "": it has no cgroup of its own.
func Account(l *api.Limits, a *api.Account) string {
	l, a = cmp.Or(l, new(api.Limits)), cmp.Or(a, new(api.Account))
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	of := func(limit int64) string {
		if limit == 0 {
			return ""
		}
		return " of " + Size(uint64(limit))
	}
	peak := "peak "
	if a.Sampled {
		peak = "peak by samples "
	}
	say(a.MemoryBytes > 0, "now %s", Size(a.MemoryBytes))
	say(a.MemoryPeakBytes > 0, "%s%s%s", peak, Size(a.MemoryPeakBytes), of(l.MemoryBytes))
	say(a.MemoryPeakBytes == 0 && l.MemoryBytes > 0, "memory limit %s", Size(uint64(l.MemoryBytes)))
	say(l.MemoryHighBytes > 0, "slower above %s", Size(uint64(l.MemoryHighBytes)))
	say(*a != api.Account{}, "CPU %s", CPU(a.CPUSeconds))
	say(l.CPUs > 0, "at most %.4g CPUs", l.CPUs)
	say(a.TasksPeak > 0 && l.Tasks > 0, "%d of %s", a.TasksPeak, Count(l.Tasks, "task"))
	say(a.TasksPeak > 0 && l.Tasks == 0, "%s", Count(a.TasksPeak, "task"))
	say(a.TasksPeak == 0 && l.Tasks > 0, "at most %s", Count(l.Tasks, "task"))
	say(l.IOWeight > 0, "I/O weight %d", l.IOWeight)
	say(a.ReadBytes+a.WrittenBytes > 0, "read %s, written %s", Size(a.ReadBytes), Size(a.WrittenBytes))
	say(a.OOMKills > 0, "%s", Count(a.OOMKills, "OOM kill"))
	say(a.SinceMove && len(parts) > 0, "since the move")
	say(l.Unlimited > 0, "unlimited: %d", l.Unlimited)
	for _, why := range l.Unset {
		say(true, "not in force: %s", Text(why))
	}
	return strings.Join(parts, ", ")
}
