package ending

import (
	"context"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

var (
	errNotConfirmed = exit.Errorf(api.ExitFailed, "end: not confirmed, nothing was sent")
	errCannotAsk    = exit.Usage("end: cannot ask for confirmation (not a terminal); use --yes")
)

// ask shows what will die and asks for a yes. It asks nothing if everything is over
// already.
func (e *Ender) ask(ctx context.Context, targets []*target) (bool, error) {
	p := e.Console.Page(e.Console.Stderr, false)
	sessions, processes := e.list(ctx, p, targets)
	if sessions == 0 {
		return true, nil
	}
	what := "it"
	if sessions > 1 {
		what = fmt.Sprintf("these %d sessions with %s", sessions, display.Count(processes, "process", "processes"))
	}
	return confirm(e.Console, p, what)
}

// list writes what will die, and counts it.
func (e *Ender) list(ctx context.Context, p *text.Page, targets []*target) (sessions, processes int) {
	for _, t := range targets {
		if t.err != nil || t.session.State == api.StateEnded {
			continue
		}
		sessions++
		processes += t.session.Live
		p.Wrap(0, fmt.Sprintf("session %s: %s will get %s%s", display.Text(strings.TrimSpace(t.session.ID+" "+t.session.Name)),
			display.Count(t.session.Live, "process", "processes"), e.signals(t.session), listening(t.session)+e.activity(t.session, e.Console.Now())))
		tree, err := e.Client.Tree(ctx, t.session.ID, "ancestors")
		if err != nil {
			p.Line("  (not listed: %s)", display.Error(err))
			continue
		}
		var live []*api.Process
		for i := range tree.Nodes {
			if n := &tree.Nodes[i]; n.State == api.StateLive {
				live = append(live, &n.Process)
			}
		}
		text.WriteListed(p, live)
	}
	return sessions, processes
}

// listening says on which ports a session listens.
func listening(s *api.Session) string {
	if len(s.Ports) == 0 {
		return ""
	}
	return "; it listens on " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Ports), " ", ", "), "[]")
}

// confirm prints the page, and asks for a yes below it.
func confirm(c *console.Console, p *text.Page, what string) (bool, error) {
	if err := p.Flush(); err != nil {
		return false, err
	}
	return c.Agreed("End " + what + "?"), nil
}
