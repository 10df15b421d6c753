package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Calls lists the live processes by the tool calls that started them. Names are the ids of calls that
// can be ended.
func Calls(list *api.Orphans) *Listing {
	l := tabular(func(p *Page) table { return callsTable(p, list) })
	l.Doc = Orphans(list).Doc
	for i := range list.Calls {
		c := &list.Calls[i]
		l.Items = append(l.Items, c)
		if !c.Ambiguous {
			l.Names = append(l.Names, c.Calls[0].ID)
		}
	}
	return l
}

var CallColumns = []string{"call", "tool", "session", "name", "agent", "age", "took",
	"left", "cpus", "rss", "cpu", "largest", "ports", "runs"}

// callCommand is how many columns each of the commands has that a call has left.
const callCommand = 40

func callsTable(p *Page, list *api.Orphans) table {
	t := table{drop: []string{"AGENT", "RSS", "LARGEST", "NAME", "AGE", "TOOL"}}
	t.row(header(CallColumns)...)
	for i := range list.Calls {
		c := &list.Calls[i]
		var began *time.Time
		agent, color := "-", ""
		for _, x := range c.Calls {
			if x.Agent != nil {
				agent = strings.TrimSpace(fmt.Sprintf("%d %s", x.Agent.PID, c.Agent))
			}
			if began == nil || x.Began != nil && x.Began.Before(*began) {
				began = x.Began
			}
		}
		largest := "-"
		if u := c.Calls[0].Used; u != nil {
			largest = display.Size(u.PeakRSSBytes) + " " + u.Largest
		}
		took, ended := display.Took(c.Calls)
		if ended != nil && c.CPUs >= busyCPUs {
			color = red
		}
		t.paintedRow([]string{"", "", "", "", "", "", "", "", color}, display.CallNames(c.Calls),
			cmp.Or(c.Calls[0].Tool, "-"), c.Session,
			cmp.Or(c.SessionName, "-"), agent, p.since(began), took, fmt.Sprint(c.Processes),
			fmt.Sprintf("%.1f", c.CPUs), display.Size(c.RSSBytes),
			display.CPU(c.CPUSeconds), largest, ports(c.Ports), display.Runs(c, callCommand))
	}
	if list.MoreCalls > 0 {
		t.row("…", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-",
			display.Count(list.MoreCalls, "more call"))
	}
	return t
}

// busyCPUs is how many CPUs of an ended call are marked.
const busyCPUs = 0.5
