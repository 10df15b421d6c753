package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// listed bounds the processes that a question names, by session.
const listed = 20

// ask shows what will die and asks for a yes. There is nothing to ask when
// all is over already.
func (a *app) ask(ctx context.Context, c api.Client, targets []*target, o endOptions) (bool, error) {
	p := a.Page(a.Stderr, false)
	sessions := 0
	for _, t := range targets {
		if t.err != nil || t.session.State == api.StateEnded {
			continue
		}
		sessions++
		p.Wrap(0, fmt.Sprintf("session %s: %s will get %s%s", display.Text(strings.TrimSpace(t.session.ID+" "+t.session.Name)),
			display.Count(t.session.Live, "process", "processes"), signals(t.session, o), listening(t.session)))
		tree, err := c.Tree(ctx, t.session.ID, "ancestors")
		if err != nil {
			p.Line("  (not listed: %s)", display.Text(err.Error()))
			continue
		}
		shown := 0
		for i := range tree.Nodes {
			n := &tree.Nodes[i]
			if n.State != api.StateLive {
				continue
			}
			if shown++; shown <= listed {
				p.Line("  %d %s", n.PID, p.Command(&n.Process))
			}
		}
		if shown > listed {
			p.Line("  … and %d more", shown-listed)
		}
	}
	if sessions == 0 {
		return true, nil
	}
	what := "it"
	if sessions > 1 {
		what = fmt.Sprintf("these %d sessions", sessions)
	}
	return a.confirm(p, what)
}

var (
	errNotConfirmed = exit.Errorf(api.ExitFailed, "end: not confirmed, nothing was sent")
	errCannotAsk    = exit.Usage("end: cannot ask for confirmation (not a terminal); use --yes")
)

// confirm asks, below what the page has, for a yes.
func (a *app) confirm(p *text.Page, what string) (bool, error) {
	if err := p.Flush(); err != nil {
		return false, err
	}
	return a.Agreed("End " + what + "?"), nil
}

// graceOf is the time between SIGTERM and SIGKILL that s will have.
func graceOf(s *api.Session, o endOptions) time.Duration {
	switch {
	case o.now:
		return 0
	case o.graceSet:
		return o.grace
	}
	return time.Duration(s.GraceSeconds * float64(time.Second))
}

// listening says on which ports a session listens.
func listening(s *api.Session) string {
	if len(s.Ports) == 0 {
		return ""
	}
	return "; it listens on " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Ports), " ", ", "), "[]")
}

func signals(s *api.Session, o endOptions) string {
	if g := graceOf(s, o); g > 0 {
		return fmt.Sprintf("SIGTERM, and SIGKILL after %v", g)
	}
	return "SIGKILL"
}
