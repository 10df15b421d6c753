package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func (a *app) lsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:               "ls",
		Short:             "List sessions",
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "ended sessions too")
	format := formatFlag(cmd)
	cmd.RunE = asking(a, format, sessionListing, func(ctx context.Context, c api.Client, _ []string) (*api.Sessions, error) {
		state := "live"
		if all {
			state = "all"
		}
		return c.Sessions(ctx, state, "")
	})
	return cmd
}

func sessionListing(list *api.Sessions) listing {
	list.Head = head("sessions")
	l := listing{doc: list, text: func(p *page) { writeSessions(p, list.Items) }}
	if list.Items == nil {
		list.Items = []api.Session{}
	}
	for i := range list.Items {
		list.Items[i].Head = api.Head{Kind: "session"}
		l.items = append(l.items, list.Items[i])
		l.names = append(l.names, list.Items[i].ID)
	}
	return l
}

func writeSessions(p *page, sessions []api.Session) {
	// A column of blanks would say that there are none; they are not known at once.
	ports := false
	for _, s := range sessions {
		ports = ports || len(s.Ports) > 0
	}
	var t table
	header := []string{"ID", "NAME", "STATE", "ROOT", "LIVE", "ORPHANS", "ZOMBIES", "CPU", "RSS"}
	if ports {
		header = append(header, "PORTS")
	}
	header = append(header, "AGE", "EVIDENCE")
	if p.wide {
		header = append(header, "UID", "PARENT", "PEAK", "FORKS", "GRACE", "LEVEL", "END", "COMMAND")
	}
	t.row(header...)
	for i := range sessions {
		s := &sessions[i]
		row := []string{s.ID, cmp.Or(display.Text(s.Name), "-"), stateText(s), rootName(s),
			fmt.Sprint(s.Live), fmt.Sprint(s.Orphans), fmt.Sprint(s.Zombies), display.CPU(s.CPUSeconds), memory(s)}
		if ports {
			row = append(row, cmp.Or(strings.Trim(fmt.Sprint(s.Ports), "[]"), "-"))
		}
		row = append(row, p.since(s.Started), cmp.Or(s.Evidence, "-"))
		if p.wide {
			row = append(row, fmt.Sprint(s.UID), cmp.Or(s.Parent, "-"), fmt.Sprint(s.Peak), fmt.Sprint(s.Forks),
				grace(s), fmt.Sprint(s.Level), cmp.Or(s.EndReason, "-"), rootCommand(p, s))
		}
		for i := range row {
			row[i] = display.Text(row[i])
		}
		t.paintedRow([]string{bold, "", stateColor(s.State)}, row...)
	}
	t.write(p)
}

// stateText is the state, and that it outlives the session that it came from.
func stateText(s *api.Session) string {
	if s.Kept {
		return string(s.State) + ", kept"
	}
	return string(s.State)
}

// memory is unknown until the daemon has looked at the members once.
func memory(s *api.Session) string {
	if s.RSSBytes == 0 && s.Live > 0 {
		return "-"
	}
	return display.Size(s.RSSBytes)
}

func rootName(s *api.Session) string {
	if s.Root == nil {
		return "-"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", s.Root.PID, display.Text(s.Root.Comm)))
}

func rootCommand(p *page, s *api.Session) string {
	if s.Root == nil {
		return "-"
	}
	return p.command(s.Root)
}

func grace(s *api.Session) string {
	return fmt.Sprintf("%gs", math.Round(s.GraceSeconds*1000)/1000)
}

func stateColor(state api.SessionState) string {
	switch state {
	case api.StateActive:
		return green
	case api.StateEnding, api.StateCondemned:
		return red
	}
	return dim
}

// title is the line that says what a session is.
func title(s *api.Session) string {
	name := s.ID
	if s.Name != "" {
		name += " " + s.Name
	}
	parts := []string{string(s.State)}
	if s.Live > 0 || s.State == api.StateActive {
		parts = append(parts, fmt.Sprintf("%d live", s.Live))
	}
	for _, n := range []struct {
		n         int
		one, many string
	}{{s.Orphans, "orphan", "orphans"}, {s.Leftovers, "leftover", "leftovers"}, {s.Zombies, "zombie", "zombies"}} {
		if n.n > 0 {
			parts = append(parts, count(n.n, n.one, n.many))
		}
	}
	if s.EndReason != "" {
		parts = append(parts, s.EndReason)
	}
	if s.BrokeredBy != "" {
		parts = append(parts, "brokered by "+s.BrokeredBy)
	}
	if s.Kept {
		parts = append(parts, display.Kept(s))
	}
	if len(s.Degraded) > 0 {
		parts = append(parts, "degraded: "+strings.Join(s.Degraded, ", "))
	}
	return display.Text(name + "  " + strings.Join(parts, ", "))
}
