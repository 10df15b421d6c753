//go:build linux

package daemon

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// maxGrown bounds the sessions and commands whose past is kept: 9 MB.
const maxGrown = 2048

// growth keeps how the host, its sessions and their commands grow. It belongs to
// the registry's goroutine.
type growth struct {
	host     lineage.Trend
	sessions map[tracer.SessionID]*grown
	kept     int  // sessions and commands
	full     bool // the last sample had more
}

// grown is the past of a session, nested ones excluded, and of what it runs.
type grown struct {
	lineage.Trend
	commands map[string]*lineage.Trend
}

// usage is a sum over processes.
type usage struct {
	processes int
	rss       uint64
}

func (u *usage) add(p *lineage.Seen) {
	u.processes++
	u.rss += p.RSS
}

func (u *usage) at(now uint64) lineage.Usage {
	return lineage.Usage{At: now, Processes: u.processes, RSS: u.rss}
}

// hooks take the looks.
func (g *growth) hooks() *registry.Hooks {
	return &registry.Hooks{Sampled: func(_ registry.View, l *registry.Look) func() {
		g.sample(l.At, l.Seen)
		return nil
	}}
}

// sample takes a look at every process of the host into the past, once a minute
// and when there is a new session: a Trend takes no more than it wants.
// A command that has no process any more begins anew.
func (g *growth) sample(now uint64, seen []lineage.Seen) {
	fresh := func(p lineage.Seen) bool { return p.Session != 0 && g.sessions[p.Session] == nil }
	if !g.host.Due(now) && (g.full || !slices.ContainsFunc(seen, fresh)) {
		return
	}
	var host usage
	sessions := make(map[tracer.SessionID]map[string]*usage)
	for i := range seen {
		p := &seen[i]
		host.add(p)
		if p.Session == 0 {
			continue
		}
		commands := sessions[p.Session]
		if commands == nil {
			commands = make(map[string]*usage)
			sessions[p.Session] = commands
		}
		comm, _, _ := bytes.Cut(p.Comm, []byte{0})
		u := commands[string(comm)]
		if u == nil {
			u = new(usage)
			commands[string(comm)] = u
		}
		u.add(p)
	}
	g.host.Add(host.at(now))
	maps.DeleteFunc(g.sessions, func(id tracer.SessionID, s *grown) bool {
		maps.DeleteFunc(s.commands, func(comm string, _ *lineage.Trend) bool {
			gone := sessions[id][comm] == nil
			if gone {
				g.kept--
			}
			return gone
		})
		gone := sessions[id] == nil
		if gone {
			g.kept--
		}
		return gone
	})
	g.full = false
	for id, commands := range sessions {
		g.session(id, now, commands)
	}
}

func (g *growth) session(id tracer.SessionID, now uint64, commands map[string]*usage) {
	s := g.sessions[id]
	if s == nil {
		if !g.room() {
			return
		}
		if g.sessions == nil {
			g.sessions = make(map[tracer.SessionID]*grown)
		}
		s = &grown{commands: make(map[string]*lineage.Trend)}
		g.sessions[id] = s
	}
	var all usage
	for comm, u := range commands {
		all.processes += u.processes
		all.rss += u.rss
		t := s.commands[comm]
		if t == nil {
			if !g.room() {
				continue
			}
			t = new(lineage.Trend)
			s.commands[comm] = t
		}
		t.Add(u.at(now))
	}
	s.Add(all.at(now))
}

// room takes a place for one more.
func (g *growth) room() bool {
	if g.kept == maxGrown {
		g.full = true
		return false
	}
	g.kept++
	return true
}

// growthOf is a trend on the wire.
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

// room is what is left of something, by its name.
type room struct {
	what    string
	left    float64
	perHour float64
}

// exhausts finds what is used up first.
func exhausts(d *api.Leak, rooms ...room) {
	if !d.Growth.Known {
		return
	}
	for _, r := range rooms {
		if hours, ok := lineage.HoursUntil(r.left, r.perHour); ok && (d.HoursToExhaustion == nil || hours < *d.HoursToExhaustion) {
			d.HoursToExhaustion, d.Exhausts = &hours, r.what
		}
	}
}

// limitsOf are what a session can use up besides what the host has.
func limitsOf(d *api.Leak, info tracer.SessionInfo, host []room) (rooms []room) {
	if !d.Growth.Known {
		return nil
	}
	processes, rss := *d.Growth.ProcessesPerHour, *d.Growth.BytesPerHour
	for _, r := range host {
		r.perHour = map[string]float64{whatMemory: rss, whatPIDs: processes}[r.what]
		rooms = append(rooms, r)
	}
	if info.MaxRSS != 0 {
		rooms = append(rooms, room{"max_rss", float64(info.MaxRSS) - float64(d.RSSBytes), rss})
	}
	if info.MaxProcesses != 0 {
		rooms = append(rooms, room{"max_processes", float64(info.MaxProcesses) - float64(info.Live+info.Unreaped), processes})
	}
	return rooms
}

const (
	whatMemory = "memory"
	whatPIDs   = "pids"
)

// roomsOf is what the host has left: MemAvailable of /proc/meminfo, and the PIDs
// that no task has. What cannot be read is left out.
func roomsOf(proc procfs.FS) (rooms []room) {
	text := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(string(proc), name))
		return string(b)
	}
	for line := range strings.Lines(text("meminfo")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			if kb, err := strconv.ParseUint(f[1], 10, 53); err == nil {
				rooms = append(rooms, room{what: whatMemory, left: float64(kb) * 1024})
			}
		}
	}
	most, err := strconv.ParseUint(strings.TrimSpace(text("sys/kernel/pid_max")), 10, 32)
	if f := strings.Fields(text("loadavg")); err == nil && len(f) > 3 {
		_, tasks, _ := strings.Cut(f[3], "/")
		if n, err := strconv.ParseUint(tasks, 10, 32); err == nil {
			rooms = append(rooms, room{what: whatPIDs, left: float64(most) - float64(n)})
		}
	}
	return rooms
}

// getLeaks tells what sessions hold and how it grows.
func (s *server) getLeaks(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "session")
	if err != nil {
		return err
	}
	d := api.Leaks{Head: head("leaks"), Items: []api.Leak{}}
	rooms := roomsOf(s.proc)
	if word := q.Get("session"); word != "" {
		err = s.withSession(word, c, access.Read, func(v registry.View, x *registry.Session) {
			if !x.Closed() {
				d.Items = append(d.Items, s.leak(v, x, rooms))
			}
		})
		if err == nil && len(d.Items) == 0 {
			err = api.NewError(api.CodeNotFound, fmt.Sprintf("session %s is over and holds nothing", word), "lineage history shows how it went")
		}
	} else {
		all := access.Decide(c, access.Metrics, access.Scope{}).Allow
		err = s.read(c, func(v registry.View) {
			for _, x := range v.Sorted() {
				if !x.Closed() && access.Decide(c, access.Read, v.Scope(x)).Allow {
					d.Items = append(d.Items, s.leak(v, x, rooms))
				}
			}
			if all {
				d.Host = s.hostLeak(v, rooms)
			}
			d.Truncated = s.growth.full
		})
		if all {
			d.KeepUnmatched = s.rules.keepUnmatched()
		}
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// leak is a session, its nested ones excluded.
func (s *server) leak(v registry.View, x *registry.Session, rooms []room) api.Leak {
	v.Refresh(x)
	n := v.Graph().Count(x.ID())
	d := api.Leak{
		Head: api.Head{Kind: "leak"}, Session: x.ID().String(), Name: x.Info().Name, State: x.State(),
		Started: s.clock.Wall(x.Info().Created), Processes: n.Live + n.Zombies, Orphans: n.Orphans, Zombies: n.Zombies, RSSBytes: x.Usage().RSS,
	}
	if x.RootDied() != 0 {
		d.Leftovers = n.Live
	}
	if d.Kept = x.Info().Kept; d.Kept && x.Info().Expires != 0 {
		d.Until = s.clock.Wall(x.Info().Expires)
	}
	if why := s.steward.of(x.ID()).kept; why != nil {
		d.Reason, d.KeptBy, d.KeepRule = why.Reason, why.By, why.Rule
	}
	g := s.growth.sessions[x.ID()]
	if g == nil {
		g = new(grown)
	}
	d.Growth = growthOf(&g.Trend)
	for comm, t := range g.commands {
		last := t.Last()
		d.Commands = append(d.Commands, api.LeakCommand{Comm: comm, Processes: last.Processes, RSSBytes: last.RSS, Growth: growthOf(t)})
	}
	slices.SortFunc(d.Commands, func(a, b api.LeakCommand) int {
		return cmp.Or(cmp.Compare(b.RSSBytes, a.RSSBytes), cmp.Compare(b.Processes, a.Processes), cmp.Compare(a.Comm, b.Comm))
	})
	exhausts(&d, limitsOf(&d, x.Info(), rooms)...)
	if h := document.Holds(x.Held(), nil); h != nil {
		d.Ports, d.Locks = h.Ports, h.Locks
	}
	return d
}

// hostLeak is all processes of the host, as of the last sample; nil if there
// was none: without a session nobody looks.
func (s *server) hostLeak(v registry.View, rooms []room) *api.Leak {
	last := s.growth.host.Last()
	if last.At == 0 {
		return nil
	}
	d := &api.Leak{Head: api.Head{Kind: "leak"}, Processes: last.Processes, RSSBytes: last.RSS, Growth: growthOf(&s.growth.host)}
	for x := range v.Sessions() {
		if x.Closed() {
			continue
		}
		n := v.Graph().Count(x.ID())
		d.Orphans += n.Orphans
		d.Zombies += n.Zombies
		if x.RootDied() != 0 {
			d.Leftovers += n.Live
		}
	}
	exhausts(d, limitsOf(d, tracer.SessionInfo{}, rooms)...)
	return d
}
