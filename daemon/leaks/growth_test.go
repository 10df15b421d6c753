//go:build linux

package leaks

import (
	"fmt"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// The kept past is bounded, and reported as cut.
func TestGrowthIsBounded(t *testing.T) {
	var g Growth
	var seen []lineage.Seen
	for i := range 3 * maxGrown {
		seen = append(seen, lineage.Seen{ID: lineage.ID{PID: uint32(i + 1), Start: 1}, Session: lineage.SessionID(1 + i%7), Comm: fmt.Appendf(nil, "c%d\x00", i)})
	}
	hour := uint64(time.Hour)
	g.sample(hour, seen)
	count := func() (n int) {
		for _, s := range g.sessions {
			n += 1 + len(s.commands)
		}
		return n
	}
	if n := count(); n != maxGrown || g.kept != n || !g.full {
		t.Errorf("%d kept, %d counted, full %v", n, g.kept, g.full)
	}
	g.sample(2*hour, seen[:7])
	if n := count(); n != g.kept || n > 14 || g.full {
		t.Errorf("%d kept, %d counted, full %v", n, g.kept, g.full)
	}
	g.sample(3*hour, nil)
	if g.kept != 0 || len(g.sessions) != 0 {
		t.Errorf("%d kept", g.kept)
	}
}

// The resource that is used up first is named: a limit of the session, if that is nearer.
func TestExhausts(t *testing.T) {
	processes, rss := 120.0, 120*float64(1<<20)
	d := api.Leak{RSSBytes: 26 << 20, Growth: api.Growth{Known: true, ProcessesPerHour: &processes, BytesPerHour: &rss}}
	host := []Room{{"memory", false, 1200 << 20}, {"pids", true, 12768}}
	for _, tt := range []struct {
		info  tracer.SessionInfo
		hours float64
		what  string
	}{
		{tracer.SessionInfo{}, 10, "memory"},
		{tracer.SessionInfo{MaxRSS: 86 << 20, MaxProcesses: 57, Live: 27}, 0.25, "max_processes"},
		{tracer.SessionInfo{MaxRSS: 86 << 20}, 0.5, "max_rss"},
		{tracer.SessionInfo{MaxProcesses: 87, Live: 27, Unreaped: 30}, 0.25, "max_processes"}, // a zombie counts
	} {
		d.HoursToExhaustion = nil
		if exhausts(&d, tt.info, host); d.HoursToExhaustion == nil || *d.HoursToExhaustion != tt.hours || d.Exhausts != tt.what {
			t.Errorf("%+v: %v hours to %s", tt.info, d.HoursToExhaustion, d.Exhausts)
		}
	}
}
