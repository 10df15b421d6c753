package ending

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// ask shows what will die, and returns an error unless the user agrees. If everything is over already it asks only about a halt.
func (e *Ender) ask(ctx context.Context, targets []*target, halt bool) error {
	p := e.Console.Page(e.Console.Stderr, false)
	sessions, processes := 0, 0
	for _, t := range targets {
		if t.err != nil || t.session.State == api.StateEnded {
			continue
		}
		sessions++
		processes += t.session.Live
		p.Wrap(0, fmt.Sprintf("session %s: %s will get %s%s", name(t.session),
			display.Count(t.session.Live, "process"), e.signals(t.session),
			listening(t.session)+e.activity(t.session, e.Console.Now())))
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
	count := display.Count(processes, "process")
	switch {
	case halt:
		p.Wrap(
			0,
			fmt.Sprintf(
				`%s with %s will end, and known agents die at their exec until "lineage halt --off"`,
				display.Count(sessions, "session"),
				count,
			),
		)
		return e.Console.Confirm("halt", p, "Halt this host?")
	case sessions == 0:
		return nil
	case sessions == 1:
		return e.Console.Confirm("end", p, "End it?")
	}
	return e.Console.Confirm("end", p, fmt.Sprintf("End these %d sessions with %s?", sessions, count))
}

// name is how a line names a session.
func name(s *api.Session) string { return display.Text(strings.TrimSpace(s.ID + " " + s.Name)) }

// listening says on which ports a session listens.
func listening(s *api.Session) string {
	if len(s.Ports) == 0 {
		return ""
	}
	return "; it listens on " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Ports), " ", ", "), "[]")
}

// activity says what is known about the use of a session that ends because it is idle.
func (e *Ender) activity(s *api.Session, now time.Time) string {
	if e.Sessions.Idle == 0 {
		return ""
	}
	last := "no event since the daemon started"
	if s.LastEvent != nil {
		last = "last event " + display.Age(now.Sub(*s.LastEvent)) + " ago"
	}
	return fmt.Sprintf(
		"; idle for %s, %s of CPU so far, %s",
		display.Age(time.Duration(s.IdleSeconds*float64(time.Second))),
		display.CPU(s.CPUSeconds),
		last,
	)
}

// Each does something else than an end to each selected session. Those that no word names alone are left out unless they
// fit, and are listed before a question. If a word names none, nothing is done.
func (e *Ender) Each(ctx context.Context, verb string, fits func(*api.Session) bool,
	do func(id string) error) error {
	found, err := e.selection().Resolve(ctx, e.Client)
	if err != nil {
		return err
	}
	p := e.Console.Page(e.Console.Stderr, false)
	ask, ids := false, []string{}
	for _, c := range found.Choices {
		if c.Named || fits(c.Session) {
			ask, ids = ask || !c.Named && !e.Yes, append(ids, c.Session.ID)
			p.Wrap(0, name(c.Session))
		}
	}
	if ask {
		if err := e.Console.Confirm(verb, p, fmt.Sprintf("Do you want to %s these %d sessions?",
			verb, len(ids))); err != nil {
			return err
		}
	}
	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = do(id)
	}
	return e.Console.Failed(errs...)
}
