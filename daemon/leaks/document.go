//go:build linux

package leaks

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// growthOf converts a trend for documents.
func growthOf(t *lineage.Trend) api.Growth {
	d := api.Growth{OverSeconds: document.Seconds(t.Span())}
	g, ok := t.Growth()
	if !ok {
		d.Why = "not enough data yet"
		return d
	}
	d.Known, d.ProcessesPerHour, d.BytesPerHour = true, &g.Processes, &g.RSS
	return d
}

// Room is what is left of something, in bytes or in processes.
type Room struct {
	what      string
	processes bool
	left      float64
}

// exhausts finds what is used up first: what the host has, or a limit of the session.
func exhausts(d *api.Leak, info tracer.SessionInfo, host []Room) {
	if !d.Growth.Known {
		return
	}
	rooms := slices.Clone(host)
	if info.MaxRSS != 0 {
		rooms = append(rooms, Room{"max_rss", false, float64(info.MaxRSS) - float64(d.RSSBytes)})
	}
	if info.MaxProcesses != 0 {
		rooms = append(rooms, Room{"max_processes", true, float64(info.MaxProcesses) - float64(info.Live+info.Unreaped)})
	}
	for _, r := range rooms {
		perHour := *d.Growth.BytesPerHour
		if r.processes {
			perHour = *d.Growth.ProcessesPerHour
		}
		if hours, ok := lineage.HoursUntil(r.left, perHour); ok && (d.HoursToExhaustion == nil || hours < *d.HoursToExhaustion) {
			d.HoursToExhaustion, d.Exhausts = &hours, r.what
		}
	}
}

// Rooms is what the host has left: MemAvailable of /proc/meminfo, and the PIDs
// that no task has. What cannot be read is left out.
func Rooms(proc procfs.FS) (rooms []Room) {
	text := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(string(proc), name))
		return string(b)
	}
	for line := range strings.Lines(text("meminfo")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			if kb, err := strconv.ParseUint(f[1], 10, 53); err == nil {
				rooms = append(rooms, Room{"memory", false, float64(kb) * 1024})
			}
		}
	}
	most, err := strconv.ParseUint(strings.TrimSpace(text("sys/kernel/pid_max")), 10, 32)
	if f := strings.Fields(text("loadavg")); err == nil && len(f) > 3 {
		_, tasks, _ := strings.Cut(f[3], "/")
		if n, err := strconv.ParseUint(tasks, 10, 32); err == nil {
			rooms = append(rooms, Room{"pids", true, float64(most) - float64(n)})
		}
	}
	return rooms
}

// Session describes the growth of a session, without its nested ones, and what its members hold.
func (g *Growth) Session(v registry.View, x *registry.Session, held resources.Held, rooms []Room) api.Leak {
	v.Refresh(x)
	n := v.Graph().Count(x.ID())
	d := api.Leak{
		Head: api.Head{Kind: "leak"}, Session: x.ID().String(), Name: x.Info().Name, State: x.State(),
		Started: v.Encoder().Clock.Wall(x.Info().Created), Processes: n.Live + n.Zombies, Orphans: n.Orphans, Zombies: n.Zombies, RSSBytes: n.RSS,
	}
	if x.LeftOver() {
		d.Leftovers = n.Live
	}
	if d.Kept = x.Info().Kept; d.Kept && x.Info().Expires != 0 {
		d.Until = v.Encoder().Clock.Wall(x.Info().Expires)
	}
	if why := v.Record(x).Kept; why != nil {
		d.Reason, d.KeptBy, d.KeepRule = why.Reason, why.By, why.Rule
	}
	its := g.sessions[x.ID()]
	if its == nil {
		its = new(grown)
	}
	d.Growth = growthOf(&its.Trend)
	for comm, t := range its.commands {
		last := t.Last()
		d.Commands = append(d.Commands, api.LeakCommand{Comm: comm, Processes: last.Processes, RSSBytes: last.RSS, Growth: growthOf(t)})
	}
	slices.SortFunc(d.Commands, func(a, b api.LeakCommand) int {
		return cmp.Or(cmp.Compare(b.RSSBytes, a.RSSBytes), cmp.Compare(b.Processes, a.Processes), cmp.Compare(a.Comm, b.Comm))
	})
	exhausts(&d, x.Info(), rooms)
	if h := document.Holds(held, nil); h != nil {
		d.Ports, d.Locks = h.Ports, h.Locks
	}
	return d
}

// Host describes all processes of the host, as of the last look; nil if there was none:
// without a session there are no looks.
func (g *Growth) Host(v registry.View, rooms []Room) *api.Leak {
	last := g.host.Last()
	if last.At == 0 {
		return nil
	}
	d := &api.Leak{Head: api.Head{Kind: "leak"}, Processes: last.Processes, RSSBytes: last.RSS, Growth: growthOf(&g.host)}
	for x := range v.Sessions() {
		if x.Closed() {
			continue
		}
		n := v.Graph().Count(x.ID())
		d.Orphans += n.Orphans
		d.Zombies += n.Zombies
		if x.LeftOver() {
			d.Leftovers += n.Live
		}
	}
	exhausts(d, tracer.SessionInfo{}, rooms)
	return d
}
