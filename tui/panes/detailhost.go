package panes

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// host is about a host and all of its sessions. Nothing is done to a host itself.
func (p *pane) host(r *picture.Row) {
	s := r.Session
	if r.Down() {
		p.text(p.Look(r).Paint, "", p.Joined(p.SessionNotes(s)))
		if s.State == picture.Unreachable {
			p.blank()
			p.text(p.Dim, "", "It is tried again every few seconds.")
		}
		return
	}
	sessions := 0
	for c := r.First(); c != nil; c = c.Next() {
		if c.Kind == picture.SessionRow && c.Session.State != api.StateEnded {
			sessions++
		}
	}
	p.fact("sessions", fmt.Sprint(sessions))
	p.fact("processes", strings.Join(display.Living(s), ", "))
	p.fact("forks", fmt.Sprint(s.Forks))
	p.fact("CPU, RSS", fmt.Sprintf("%.1f%%, %s in all, %s", p.Picture.CPU(r), display.CPU(s.CPUSeconds), display.Size(s.RSSBytes)))
	p.colored(p.Key, "activity", p.Sparkline(p.Activity, p.columns-nameColumns-4, 10))
	p.fact("level", fmt.Sprint(s.Level))
	p.fact("policy", mode(s))
	p.blank()
	p.text(p.Dim, "", "→ shows its sessions: x ends one of them; v shows the events of the host")
}

func mode(s *api.Session) string {
	if s.Mode == "observe" {
		return s.Mode + ": automatic rules only log"
	}
	return cmp.Or(s.Mode, "not known")
}
