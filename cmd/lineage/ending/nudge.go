package ending

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// nudgesDocument is `end --nudge -o json`.
type nudgesDocument struct {
	api.Head
	Items []*api.Killed `json:"items"`
}

// nudge sends SIGCHLD to each parent of zombies in these sessions, or in all: the daemon
// gets one zombie of each, finds the parent that must reap it, and signals it. If one
// parent cannot be signalled, the others still are; the worst exit code counts.
func (e *Ender) nudge(ctx context.Context, sessions []string) error {
	if len(sessions) == 0 {
		sessions = []string{""}
	}
	waiting := map[api.Ref]map[api.Ref]bool{} // zombies by the process that must reap them
	var first []api.Orphan
	for _, session := range sessions {
		list, err := e.Client.Orphans(ctx, session)
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if o.Reaper == nil {
				continue
			}
			if waiting[o.Reaper.Ref] == nil {
				first = append(first, o)
				waiting[o.Reaper.Ref] = map[api.Ref]bool{}
			}
			waiting[o.Reaper.Ref][o.Ref] = true
		}
	}
	if len(first) == 0 {
		e.Console.Say("end: no zombie that a parent could reap")
	}
	worst := api.ExitOK
	doc := nudgesDocument{text.Head("nudges"), []*api.Killed{}}
	l := &text.Listing{}
	var lines []string
	for _, o := range first {
		k, err := e.Client.Kill(ctx, o.Ref.String(), api.KillRequest{Signal: "CHLD"})
		if err != nil {
			e.Console.Complain(err)
			worst = max(worst, exit.Code(err))
			continue
		}
		k.Head = api.Head{Kind: "killed"}
		doc.Items = append(doc.Items, k)
		l.Items, l.Names = append(l.Items, k), append(l.Names, o.Reaper.Ref.String())
		lines = append(lines, fmt.Sprintf("%d %s: SIGCHLD %s; %s of it", o.Reaper.PID, display.Text(o.Reaper.Comm), display.Text(k.Outcome),
			display.Count(len(waiting[o.Reaper.Ref]), "zombie is a child", "zombies are children")))
	}
	l.Doc = doc
	l.Text = func(p *text.Page) {
		for _, line := range lines {
			p.Line("%s", line)
		}
	}
	if err := e.Console.Print(e.Format, l); err != nil {
		return err
	}
	return exit.Silent(worst)
}
