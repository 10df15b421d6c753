package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
)

// The bounds of what tool calls have left, because members choose ids, names and command lines.
const (
	callsBytes   = 64 << 10 // of one session
	callBytes    = 512      // of one of them, besides its texts
	callCommands = 4        // that are named of each
	commandBytes = 160      // of each
)

// Calls are the live processes of one session, nested ones excluded, by the tool call that has
// started them. ports are those that members hold. more is how many calls are left out.
func Calls(e Encoder, s *Session, ports map[lineage.ID][]int, r Reader) (all []api.CallLeft, more int) {
	id := s.Info.ID
	found := make(map[string]*callLeft)
	counted := make(map[*lineage.Call]bool)
	in := make(map[lineage.ID]*callLeft)
	for m := range e.Graph.Members(id) {
		claim, _ := e.Graph.Claim(m)
		if claim == nil || len(claim.Calls) == 0 {
			continue
		}
		key := callKey(claim.Calls)
		g := found[key]
		if g == nil {
			g = &callLeft{CallLeft: api.CallLeft{Head: api.Head{Kind: "call"},
				Session: id.String(), SessionName: s.Info.Name, Kept: s.Info.Kept,
				Ambiguous: len(claim.Calls) > 1, Ports: []int{}}, runs: make(map[string]*api.CallCommand)}
			if n, ok := e.Graph.Node(claim.Calls[0].Agent); ok {
				g.Agent = n.Comm.String()
			}
			found[key] = g
		}
		g.called(e.Clock, claim.Calls)
		if c := claim.Calls[0]; !g.Ambiguous && !counted[c] {
			counted[c] = true
			g.used.Add(c.Used())
		}
		n, _ := e.Graph.Node(m)
		g.add(&n, r)
		in[m] = g
	}
	for holder, held := range ports {
		if g := in[holder]; g != nil {
			g.Ports = append(g.Ports, held...)
		}
	}
	rows := make([]*callLeft, 0, len(found))
	for _, g := range found {
		rows = append(rows, g)
	}
	slices.SortFunc(rows, func(a, b *callLeft) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(b.Processes, a.Processes),
			cmp.Compare(callKey(a.calls), callKey(b.calls)))
	})
	size := 0
	for i, g := range rows {
		d, n := g.document()
		if size += n; size > callsBytes {
			return all, len(rows) - i
		}
		all = append(all, d)
	}
	return all, 0
}

// callLeft is a CallLeft while its processes are counted.
type callLeft struct {
	api.CallLeft
	calls []*lineage.Call
	used  lineage.Call // of all of them
	runs  map[string]*api.CallCommand
}

// callKey names calls by their agents and ids: an id that an agent uses again is the same call.
func callKey(calls []*lineage.Call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "%v %q ", c.Agent, c.ID)
	}
	return b.String()
}

// called adds the times of calls: the first beginning, and the last end if all have one.
func (g *callLeft) called(k Clock, calls []*lineage.Call) {
	if g.calls == nil {
		g.calls = calls
		for _, c := range calls {
			g.Calls = append(g.Calls, Call(k, c))
		}
		return
	}
	for i, c := range calls {
		if c == g.calls[i] {
			continue
		}
		into, x := &g.Calls[i], Call(k, c)
		into.Began = edge(into.Began, x.Began, time.Time.Before)
		into.Ended = edge(into.Ended, x.Ended, time.Time.After)
	}
}

// edge is the time that comes first in an order; nil if one is not known.
func edge(a, b *time.Time, first func(a, b time.Time) bool) *time.Time {
	if a == nil || b == nil || first(*a, *b) {
		return a
	}
	return b
}

func (g *callLeft) add(n *lineage.Node, r Reader) {
	g.Processes++
	g.CPUs += n.Use.Load
	g.CPUSeconds += seconds(n.CPUTime)
	g.RSSBytes += n.Use.RSS
	argv, cut := shortened(api.Unwrapped(r.Argv(n.UID, n.Argv)))
	key := n.Comm.String()
	if argv != nil {
		key = fmt.Sprintf("%q", argv)
	}
	c := g.runs[key]
	if c == nil {
		c = &api.CallCommand{Comm: n.Comm.String(), Argv: argv,
			ArgvTruncated: argv != nil && (cut || n.ArgvTruncated)}
		g.runs[key] = c
	}
	c.Processes++
}

// shortened is the beginning of a command line.
func shortened(argv []string) (_ []string, cut bool) {
	left := commandBytes
	for i, arg := range argv {
		if left -= len(arg) + 1; left < 0 {
			return append(slices.Clone(argv[:i]),
				strings.ToValidUTF8(arg[:max(0, left+len(arg))], "")), true
		}
	}
	return argv, false
}

// document is the sum, and how many bytes it counts for.
func (g *callLeft) document() (d api.CallLeft, size int) {
	d, size = g.CallLeft, callBytes
	d.CPUSeconds += seconds(g.used.Used().CPUTime)
	d.Calls[0].Used = used(g.used.Used())
	for _, c := range d.Calls {
		size += len(c.ID) + len(c.Tool) + callBytes/4
	}
	slices.Sort(d.Ports)
	d.Ports = slices.Compact(d.Ports)
	size += 6 * len(d.Ports)
	d.Commands = []api.CallCommand{}
	for _, c := range g.runs {
		d.Commands = append(d.Commands, *c)
	}
	slices.SortFunc(d.Commands, func(a, b api.CallCommand) int {
		return cmp.Or(cmp.Compare(b.Processes, a.Processes), cmp.Compare(a.Comm, b.Comm),
			slices.Compare(a.Argv, b.Argv))
	})
	for _, c := range d.Commands[min(len(d.Commands), callCommands):] {
		d.MoreRun += c.Processes
	}
	d.Commands = d.Commands[:min(len(d.Commands), callCommands)]
	for _, c := range d.Commands {
		size += len(c.Comm) + commandBytes
	}
	return d, size
}
