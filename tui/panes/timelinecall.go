package panes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

// mostCallLanes is how many calls have a lane each. Of more, those of one tool share one,
// or the lanes of the processes would be far below.
const mostCallLanes = 8

type callKey struct {
	agent api.Ref
	id    string
}

func keyOf(c *api.Call) callKey {
	k := callKey{id: c.ID}
	if c.Agent != nil {
		k.agent = *c.Agent
	}
	return k
}

// Open reports whether a call has no end yet, as far as is known, in a session of at most
// that many processes.
func (m *Timeline) Open(most int) bool {
	return !m.over && len(m.known) <= most && slices.ContainsFunc(callLanes(slices.Collect(maps.Values(m.known))), func(l lane) bool {
		return slices.ContainsFunc(l.calls, func(c *api.Call) bool { return c.Ended == nil })
	})
}

// callLanes makes the lanes of the calls, in the order of their beginnings. A lane's
// processes are the first of each call. That a call has ended may be known from any of
// its processes: an exited one stays as it was.
func callLanes(all []*api.Process) (lanes []lane) {
	first, last := map[callKey]*api.Process{}, map[callKey]*api.Call{}
	for _, p := range all {
		for i := range p.Calls {
			c := &p.Calls[i]
			k := keyOf(c)
			if first[k] == nil && c.Began != nil {
				first[k] = p
			}
			if c.Began != nil && (last[k] == nil || last[k].Ended == nil) {
				last[k] = c
			}
		}
	}
	calls := slices.Collect(maps.Values(last))
	slices.SortFunc(calls, func(a, b *api.Call) int { return cmp.Or(a.Began.Compare(*b.Began), strings.Compare(a.ID, b.ID)) })
	at := map[string]int{}
	for _, c := range calls {
		i, shared := at[c.Tool]
		if !shared || len(calls) <= mostCallLanes {
			i = len(lanes)
			at[c.Tool] = i
			lanes = append(lanes, lane{})
		}
		lanes[i].calls = append(lanes[i].calls, c)
		lanes[i].processes = append(lanes[i].processes, first[keyOf(c)])
	}
	return lanes
}

func (m *Timeline) during(c *api.Call) (began, ended time.Time) {
	if c.Ended == nil {
		return *c.Began, m.now
	}
	return *c.Began, *c.Ended
}

// callName writes the call of a lane, or their tool and how many there are.
func (m *Timeline) callName(l *Labels, line *ink.Line, ln *lane, columns int) {
	c := ln.calls[0]
	room := columns - 2
	if n := len(ln.calls); n > 1 {
		count := display.Count(n, "call", "calls")
		line.Put(l.Key, " "+l.OpenClaim+l.Fit(display.Text(c.Tool), room-ink.Width(count)-3)+l.CloseClaim+" "+count)
		return
	}
	text := l.OpenClaim + display.Call(c) + l.CloseClaim
	if ink.Width(text) > room {
		text = l.ShortCall(c, "")
	}
	line.Put(l.Key, " "+text)
}

func (m *Timeline) callCells(l *Labels, ln *lane, columns int) []cell {
	cells := make([]cell, columns)
	from, to := m.Span()
	for _, c := range ln.calls {
		began, ended := m.during(c)
		if ended.Before(from) || began.After(to) {
			continue
		}
		start, stop := span(began, ended, from, to, columns)
		for x := start; x <= stop; x++ {
			cells[x] = cell{text: l.Horizontal, paint: l.Strong}
		}
		if c.Ended == nil && !m.over && !to.Before(m.now) {
			cells[stop].text = l.LaneNow
		}
	}
	return cells
}
