package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func (a *app) orphansCommand() *cobra.Command {
	var end, nudge, yes bool
	cmd := &cobra.Command{
		Use:   "orphans [SESSION]",
		Short: "List orphans, leftovers of gone roots, and zombies with who has to reap them",
		Long: `List live processes whose creator is dead (orphan), those whose session's root
is gone (leftover), and dead ones that their parent has not waited for (zombie).
Work that members handed to other daemons, such as tmux or docker, is listed with
the evidence that it is theirs; where nothing was found of it, who asked for it
is (brokered, unattributed).

--end ends the sessions whose root is gone, as "lineage end" does, and nothing
else: not an orphan whose session's root lives, not a kept session, and not a
session in which another one is nested whose own root lives.

--nudge sends SIGCHLD to the parents of the zombies, once to each. A parent that
waits for its children when it is told will reap them; others lose nothing.`,
		Args:              argsCount(0, 1, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVar(&end, "end", false, "end the sessions whose root is gone")
	f.BoolVar(&nudge, "nudge", false, "send SIGCHLD to the parents that have zombies to reap")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case end && nudge:
			return usage("orphans: give only one of --end and --nudge")
		case yes && !end:
			return usage("orphans: --yes belongs to --end")
		case end && !yes && !a.canAsk():
			return usage("orphans: this is no terminal to ask on; add --yes to end without asking")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		session := strings.Join(args, "")
		if end {
			return a.endLeftovers(cmd.Context(), c, session, yes, format.value)
		}
		list, err := c.Orphans(cmd.Context(), session)
		if err != nil {
			return err
		}
		if nudge {
			return a.nudge(cmd.Context(), c, list, format.value)
		}
		return a.print(format.value, orphanListing(list))
	}
	return cmd
}

func orphanListing(list *api.Orphans) listing {
	list.Head = head("orphans")
	if list.Items == nil {
		list.Items = []api.Orphan{}
	}
	l := listing{doc: list, text: func(p *page) { writeOrphans(p, list.Items) }}
	for i := range list.Items {
		list.Items[i].Head = api.Head{Kind: "orphan"}
		l.items = append(l.items, list.Items[i])
		if b := list.Items[i].Brokered; b == nil || b.Process != nil {
			l.names = append(l.names, list.Items[i].Ref.String())
		}
	}
	return l
}

func writeOrphans(p *page, items []api.Orphan) {
	var t table
	header := []string{"PID", "WHY", "SESSION", "NAME", "RSS", "AGE", "PARENT", "COMMAND"}
	if p.wide {
		header = append(header, "UID", "CREATOR", "CGROUP")
	}
	t.row(header...)
	for i := range items {
		o := &items[i]
		color := yellow
		if o.Why == api.WhyZombie {
			color = red
		}
		why := string(o.Why)
		if o.Brokered != nil {
			why = brokeredText(o)
		}
		if o.Kept {
			why += ", kept"
		}
		row := []string{o.Ref.String(), why, o.Session, cmp.Or(o.SessionName, "-"), display.Size(o.RSSBytes), p.since(o.Started), parentText(o), p.command(&o.Process)}
		if !p.wide {
			row[0] = fmt.Sprint(o.PID)
		}
		if p.wide {
			uid, creator := "-", "-"
			if o.UID != nil {
				uid = fmt.Sprint(*o.UID)
			}
			if o.Creator != nil {
				creator = fmt.Sprint(o.Creator.PID)
			}
			row = append(row, uid, creator, cmp.Or(o.Cgroup, "-"))
		}
		for i := range row {
			row[i] = display.Text(row[i])
		}
		t.paintedRow([]string{"", color}, row...)
	}
	t.write(p)
}

// brokeredText is why a process that no member forked is listed.
func brokeredText(o *api.Orphan) string {
	b := o.Brokered
	switch {
	case b.Process == nil && b.State == "pending":
		return "brokered, not found yet"
	case b.Process == nil:
		return "brokered, unattributed"
	}
	why := "brokered"
	if o.Why != api.WhyBrokered {
		why = string(o.Why) + ", brokered"
	}
	if e := b.Evidence; e != nil {
		why += fmt.Sprintf(" (%s), %s", e.Source, e.Confidence)
	}
	return why
}

// parentText is the parent now; of a zombie, who has to reap it, and in which
// session that is.
func parentText(o *api.Orphan) string {
	switch {
	case o.Reaper != nil && o.Reaper.Session != "" && o.Reaper.Session != o.Session:
		return strings.TrimSpace(fmt.Sprintf("%d %s", o.Reaper.PID, o.Reaper.Comm)) + " of " + o.Reaper.Session
	case o.Reaper != nil:
		return strings.TrimSpace(fmt.Sprintf("%d %s", o.Reaper.PID, o.Reaper.Comm))
	case o.Parent != nil:
		return fmt.Sprint(o.Parent.PID)
	}
	return "-"
}

// endLeftovers ends the sessions whose root is gone.
func (a *app) endLeftovers(ctx context.Context, c api.Client, session string, yes bool, format string) error {
	list, err := c.Sessions(ctx, "live", "")
	if err != nil {
		return err
	}
	if session != "" {
		s, err := c.Session(ctx, session)
		if err != nil {
			return err
		}
		session = s.ID
	}
	ids, spared := leftBehind(list.Items, session)
	for _, why := range spared {
		a.say("orphans: %s", why)
	}
	if len(ids) == 0 {
		a.say("orphans: nothing to end: no session that may be ended is without its root")
		return a.print(format, reportListing([]*api.Report{}, true))
	}
	return a.end(ctx, c, endOptions{yes: yes, timeout: 10 * time.Second}, ids, format)
}

// leftBehind names the sessions whose root is gone and that may be ended with
// all they hold, and says why others of them may not. only: that one alone.
func leftBehind(sessions []api.Session, only string) (ids, spared []string) {
	nested := map[string][]*api.Session{}
	for i := range sessions {
		s := &sessions[i]
		nested[s.Parent] = append(nested[s.Parent], s)
	}
	// lives gives a session below id that is not a leftover itself.
	var lives func(id string, depth int) *api.Session
	lives = func(id string, depth int) *api.Session {
		for _, n := range nested[id] {
			if n.Kept || n.Live > 0 && n.Leftovers == 0 {
				return n
			}
			if depth < 16 { // deeper than the kernel nests
				if found := lives(n.ID, depth+1); found != nil {
					return found
				}
			}
		}
		return nil
	}
	ending := map[string]bool{}
	for _, s := range sessions {
		if s.Leftovers == 0 || s.State != api.StateActive || only != "" && s.ID != only {
			continue
		}
		if s.Kept {
			spared = append(spared, fmt.Sprintf("session %s is kept: not ended", s.ID))
		} else if n := lives(s.ID, 0); n != nil {
			spared = append(spared, fmt.Sprintf("session %s: not ended: in it is session %s, which is kept or whose root lives; name it to \"lineage end\"", s.ID, n.ID))
		} else {
			ending[s.ID] = true
		}
	}
	for _, s := range sessions {
		// Those within end with the one around them.
		if ending[s.ID] && !ending[s.Parent] {
			ids = append(ids, s.ID)
		}
	}
	return ids, spared
}

// nudgesDocument is `orphans --nudge -o json`.
type nudgesDocument struct {
	api.Head
	Items []*api.Killed `json:"items"`
}

// nudge sends SIGCHLD to each parent of zombies: the daemon is told one zombie
// of each, finds who has to reap it, and signals that. One parent that cannot
// be told does not keep it from the others; the worst of their exit codes counts.
func (a *app) nudge(ctx context.Context, c api.Client, list *api.Orphans, format string) error {
	waiting := map[api.Ref]int{}
	var first []*api.Orphan
	for i := range list.Items {
		o := &list.Items[i]
		if o.Reaper == nil {
			continue
		}
		if waiting[o.Reaper.Ref] == 0 {
			first = append(first, o)
		}
		waiting[o.Reaper.Ref]++
	}
	worst := api.ExitOK
	doc := nudgesDocument{head("nudges"), []*api.Killed{}}
	l := listing{}
	var lines []string
	for _, o := range first {
		k, err := c.Kill(ctx, o.Ref.String(), api.KillRequest{Signal: "CHLD"})
		if err != nil {
			a.complain(err)
			worst = max(worst, exitCode(err))
			continue
		}
		k.Head = api.Head{Kind: "killed"}
		doc.Items = append(doc.Items, k)
		l.items, l.names = append(l.items, k), append(l.names, o.Reaper.Ref.String())
		lines = append(lines, fmt.Sprintf("%d %s: SIGCHLD %s; %s of it", o.Reaper.PID, display.Text(o.Reaper.Comm), display.Text(k.Outcome),
			count(waiting[o.Reaper.Ref], "zombie is a child", "zombies are children")))
	}
	l.doc = doc
	l.text = func(p *page) {
		for _, line := range lines {
			p.line("%s", line)
		}
	}
	if err := a.print(format, l); err != nil {
		return err
	}
	if worst != api.ExitOK {
		return &exitError{code: worst}
	}
	return nil
}
