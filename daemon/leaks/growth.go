//go:build linux

package leaks

import (
	"bytes"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxGrown bounds the sessions and commands whose past is kept: 9 MB.
const maxGrown = 2048

// Growth records how the host, its sessions and their commands grow. It belongs to the
// registry's goroutine; its zero value can be attached.
type Growth struct {
	host     lineage.Trend
	sessions map[tracer.SessionID]*grown
	kept     int  // sessions and commands
	full     bool // the last sample had more
}

// grown is the past of a session, without nested ones, and of the commands that it runs.
type grown struct {
	lineage.Trend
	commands map[string]*lineage.Trend
}

// Hooks get the looks.
func (g *Growth) Hooks() *registry.Hooks {
	return &registry.Hooks{Sampled: func(_ registry.View, l *registry.Look) func() {
		g.sample(l.At, l.Seen)
		return nil
	}}
}

// sample adds a look at every process of the host to the past, once a minute and when
// there is a new session: a Trend takes no more than it needs. A command without
// processes starts again.
func (g *Growth) sample(now uint64, seen []lineage.Seen) {
	fresh := func(p lineage.Seen) bool { return p.Session != 0 && g.sessions[p.Session] == nil }
	if !g.host.Due(now) && (g.full || !slices.ContainsFunc(seen, fresh)) {
		return
	}
	host := lineage.Usage{At: now, Processes: len(seen)}
	sessions := make(map[tracer.SessionID]map[string]*lineage.Usage)
	for i := range seen {
		p := &seen[i]
		host.RSS += p.RSS
		if p.Session == 0 {
			continue
		}
		commands := sessions[p.Session]
		if commands == nil {
			commands = make(map[string]*lineage.Usage)
			sessions[p.Session] = commands
		}
		comm, _, _ := bytes.Cut(p.Comm, []byte{0})
		u := commands[string(comm)]
		if u == nil {
			u = &lineage.Usage{At: now}
			commands[string(comm)] = u
		}
		u.Processes++
		u.RSS += p.RSS
	}
	g.host.Add(host)
	maps.DeleteFunc(g.sessions, func(id tracer.SessionID, s *grown) bool {
		maps.DeleteFunc(s.commands, func(comm string, _ *lineage.Trend) bool { return sessions[id][comm] == nil })
		return sessions[id] == nil
	})
	g.kept, g.full = 0, false
	for _, s := range g.sessions {
		g.kept += 1 + len(s.commands)
	}
	for id, commands := range sessions {
		g.session(id, now, commands)
	}
}

func (g *Growth) session(id tracer.SessionID, now uint64, commands map[string]*lineage.Usage) {
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
	all := lineage.Usage{At: now}
	for comm, u := range commands {
		all.Processes += u.Processes
		all.RSS += u.RSS
		t := s.commands[comm]
		if t == nil {
			if !g.room() {
				continue
			}
			t = new(lineage.Trend)
			s.commands[comm] = t
		}
		t.Add(*u)
	}
	s.Add(all)
}

// Full reports whether the last look had more than is kept.
func (g *Growth) Full(registry.View) bool { return g.full }

// room reserves a place for one more.
func (g *Growth) room() bool {
	if g.kept == maxGrown {
		g.full = true
		return false
	}
	g.kept++
	return true
}
