package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) orphansCommand() *cobra.Command {
	var end, nudge, yes, outside bool
	cmd := &cobra.Command{
		Use:   "orphans [SESSION]",
		Short: "List orphans, leftovers and zombies, and end leftovers",
		Long: `List live processes whose creator is dead (orphan), those whose session's root
is gone (leftover), and dead ones that their parent has not waited for
(zombie). Work that members handed to other daemons, such as tmux or docker, is
listed with the evidence for it (brokered); or, if no process was found, with
the process that asked (brokered, unattributed).

--end ends the sessions whose root is gone, as "lineage end --leftovers" does.

--nudge sends SIGCHLD to the parents of the zombies, once to each. Parents that
wait for their children on that signal reap them; others are not affected.

--host lists orphans outside any session: children of PID 1 that belong to no
system service and hold a deleted directory, a dead terminal or a port. A port
that one of their descendants holds counts, too. Nothing is ended: "lineage
adopt PID" makes such a process a session first.`,
		Example: `  lineage orphans                # in all sessions
  lineage orphans --end          # end the sessions whose root is gone
  sudo lineage orphans --host    # what others left behind on this host`,
		Args:              argsCount(0, 1, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVar(&end, "end", false, "end the sessions whose root is gone")
	f.BoolVar(&nudge, "nudge", false, "send SIGCHLD to the parents that have zombies to reap")
	f.BoolVar(&outside, "host", false, "list orphans of the host that are in no session")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	format := formatFlag(cmd)
	takeColumns := a.columnFlags(cmd, format, append(text.OrphanColumns, "holds")...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case end && nudge:
			return exit.Usage("orphans: give only one of --end and --nudge")
		case outside && (end || nudge || len(args) > 0):
			return exit.Usage("orphans: --host only lists, and takes no SESSION")
		case yes && !end:
			return exit.Usage("orphans: --yes belongs to --end")
		case end && !yes && !a.CanAsk():
			return exit.Usage("orphans: cannot ask for confirmation (not a terminal); use --yes")
		}
		columns := text.OrphanColumns
		if outside {
			columns = text.HostOrphanColumns
		}
		if err := takeColumns(!end && !nudge, columns); err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		session := strings.Join(args, "")
		if outside {
			return a.hostOrphans(cmd.Context(), c, format.value)
		}
		if end {
			return a.end(cmd.Context(), c, ending.Options{Leftovers: true, Yes: yes, Timeout: ending.Timeout}, args, format.value)
		}
		list, err := c.Orphans(cmd.Context(), session)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			a.explainEmpty(cmd.Context(), c, format.value, "no orphan, leftover or zombie")
		}
		if nudge {
			return a.nudge(cmd.Context(), c, list, format.value)
		}
		return a.Print(format.value, text.Orphans(list))
	}
	return cmd
}

// hostOrphans lists orphans of the host that are in no session.
func (a *app) hostOrphans(ctx context.Context, c api.Client, format string) error {
	if a.host.orphans == nil {
		return exit.Errorf(api.ExitUnsupported, "orphans: --host reads /proc of a Linux host")
	}
	orphans, unknown, err := a.host.orphans(ctx)
	if err != nil {
		return fmt.Errorf("orphans: %w", err)
	}
	doc := text.HostOrphans{Items: []text.HostOrphan{}, Unknown: unknown}
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		if o.PID == v.PID {
			continue // the daemon itself
		}
		p, err := c.Process(ctx, o.Ref.String())
		if notFound(err) || err == nil && p.Session != "" {
			continue // it is gone, or "lineage orphans" lists it
		}
		if err == nil {
			o.Ref = p.Ref // with its exact start
		}
		o.Ports = slices.DeleteFunc(o.Ports, func(port api.Port) bool {
			if port.PID == 0 || port.PID == o.PID {
				return false
			}
			holder, err := c.Process(ctx, strconv.Itoa(port.PID))
			return err == nil && holder.Session != "" // a session that the orphan started
		})
		if !o.Holds() {
			continue
		}
		doc.Items = append(doc.Items, o)
	}
	if len(doc.Items) == 0 {
		a.explainEmpty(ctx, c, format, "no orphan outside sessions holds a port, a deleted directory or a dead terminal")
	}
	return a.Print(format, text.OutsideOrphans(&doc))
}

// nudgesDocument is `orphans --nudge -o json`.
type nudgesDocument struct {
	api.Head
	Items []*api.Killed `json:"items"`
}

// nudge sends SIGCHLD to each parent of zombies: the daemon gets one zombie of each,
// finds the parent that must reap it, and signals it. If one parent cannot be
// signalled, the others still are; the worst exit code counts.
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
	doc := nudgesDocument{text.Head("nudges"), []*api.Killed{}}
	l := &text.Listing{}
	var lines []string
	for _, o := range first {
		k, err := c.Kill(ctx, o.Ref.String(), api.KillRequest{Signal: "CHLD"})
		if err != nil {
			a.Complain(err)
			worst = max(worst, exit.Code(err))
			continue
		}
		k.Head = api.Head{Kind: "killed"}
		doc.Items = append(doc.Items, k)
		l.Items, l.Names = append(l.Items, k), append(l.Names, o.Reaper.Ref.String())
		lines = append(lines, fmt.Sprintf("%d %s: SIGCHLD %s; %s of it", o.Reaper.PID, display.Text(o.Reaper.Comm), display.Text(k.Outcome),
			display.Count(waiting[o.Reaper.Ref], "zombie is a child", "zombies are children")))
	}
	l.Doc = doc
	l.Text = func(p *text.Page) {
		for _, line := range lines {
			p.Line("%s", line)
		}
	}
	if err := a.Print(format, l); err != nil {
		return err
	}
	return exit.Silent(worst)
}
