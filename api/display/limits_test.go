package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

func TestAccount(t *testing.T) {
	for want, of := range map[string]struct {
		l *api.Limits
		a *api.Account
	}{
		"": {},
		"now 512M, peak 1.2G of 8.0G, CPU 31.00s, at most 2.5 CPUs, 1 of 500 tasks, read 2.0K, written 0B, 1 OOM kill": {
			&api.Limits{MemoryBytes: 8 << 30, CPUs: 2.5, Tasks: 500},
			&api.Account{CPUSeconds: 31, MemoryBytes: 512 << 20, MemoryPeakBytes: 1288490189, TasksPeak: 1, ReadBytes: 2048, OOMKills: 1}},
		"memory limit 1.0M, slower above 512K, at most 1 task, I/O weight 50": {&api.Limits{MemoryBytes: 1 << 20, MemoryHighBytes: 512 << 10, Tasks: 1, IOWeight: 50}, nil},
		"peak by samples 2.0M, CPU 0.50s, 3 tasks, since the move, unlimited: 3, not in force: \\x1b no memory": {
			&api.Limits{Unlimited: 3, Unset: []string{"\x1b no memory"}}, &api.Account{CPUSeconds: .5,
				MemoryPeakBytes: 2 << 20, TasksPeak: 3, Sampled: true, SinceMove: true}},
	} {
		if got := Account(of.l, of.a); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
