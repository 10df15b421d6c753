package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// holdings says what a process holds, one a line, and what of it is not known.
func holdings(h *api.Holds) (lines, unknown []string) {
	if h == nil {
		return nil, nil
	}
	for i := range h.Ports {
		lines = append(lines, "holds "+display.Port(&h.Ports[i]))
	}
	for i := range h.Locks {
		lines = append(lines, "holds "+display.Lock(&h.Locks[i]))
	}
	for _, f := range h.Files {
		how := map[string]string{"read": " for reading", "write": " for writing",
			"read_write": " for reading and writing"}[f.Access]
		lines = append(lines, "has "+display.Text(f.Path)+" open"+how)
	}
	return lines, h.Unknown
}

func writeHolds(p *Page, h *api.Holds) {
	lines, unknown := holdings(h)
	for _, line := range lines {
		p.Line("  %s", line)
	}
	for _, s := range unknown {
		p.Wrap(2, "not known of what it holds: "+display.Text(s))
	}
}

// Holders shows which processes hold a port or a file, named what.
//
// ancestors gives the parents of a process on this host; nil: they are not known.
func Holders(found *api.Holders, what string, ancestors func(pid int) []api.Process) *Listing {
	found.Head = api.NewHead("holders")
	h := &holdersDocument{Holders: *found, Items: []WhyDocument{}}
	for i := range found.Items {
		item := WhyDocument{Why: found.Items[i]}
		if item.Session == nil && item.Process.PID != 0 && ancestors != nil {
			item.Ancestors = ancestors(item.Process.PID)
		}
		h.Items = append(h.Items, item)
	}
	l := &Listing{Doc: h, Text: func(p *Page) { writeHolders(p, h, what) }}
	for i := range h.Items {
		item := h.Items[i]
		item.Head = api.Head{Kind: "why"}
		l.Items = append(l.Items, item)
		if item.Process.PID != 0 {
			l.Names = append(l.Names, item.Process.Ref.String())
		}
	}
	return l
}

func writeHolders(p *Page, h *holdersDocument, what string) {
	what = display.Text(what)
	with := together(h.Items)
	for i := range h.Items {
		w := &h.Items[i]
		others, shown := with[i]
		if !shown {
			continue
		}
		if w.Process.PID == 0 {
			p.Line("%s", p.paint(bold, what+" is held by no process that could be found, or by the kernel itself"))
			writeHolds(p, w.Holds)
			continue
		}
		writeWhy(p, &w.Why, fmt.Sprintf("%s is held by %s %s", what, Ref(p, w.Process.Ref), display.Name(&w.Process)))
		writeOthers(p, h.Items, others)
		writeOutside(p, w)
	}
	if h.TimeWait > 0 {
		p.Line("%s in TIME_WAIT", display.Count(h.TimeWait, "connection"))
	}
	if h.Hidden > 0 {
		p.Line("%d more that you may not see; run with sudo", h.Hidden)
	}
	p.note(h.Unknown)
	hintEnd(p, h.Holders.Items)
}

// note says on one line what could not be read; of many processes the number and the first three.
func (p *Page) note(unknown []string) {
	var pids, rest []string
	for _, s := range unknown {
		if pid, ok := strings.CutPrefix(s, "pid "); ok {
			pid, _, _ = strings.Cut(pid, ":")
			pids = append(pids, pid)
		} else {
			rest = append(rest, s)
		}
	}
	if len(pids) > 3 {
		unknown = append(rest, fmt.Sprintf("%d processes could not be read, such as PID %s",
			len(pids), strings.Join(pids[:3], ", ")))
	}
	if len(unknown) > 0 {
		p.Wrap(0, "note: "+display.Text(strings.Join(unknown, "; ")))
	}
}

// mostNamed is how many of the others that hold the same are named; a wide page names all.
const mostNamed = 12

// writeOthers names the holders that hold the same as the first.
func writeOthers(p *Page, items []WhyDocument, others []int) {
	if len(others) == 0 {
		return
	}
	var names []string
	for _, i := range others {
		names = append(names, Ref(p, items[i].Process.Ref))
	}
	if len(names) > mostNamed && !p.Wide {
		names = append(names[:mostNamed:mostNamed], "…")
	}
	p.Wrap(2, fmt.Sprintf("and %s it, too: %s", display.Count(len(others),
		"process that holds", "processes that hold"),
		strings.Join(names, " ")))
}

// together has for each holder that is shown the others that are named with it: they hold the
// same, and it, or its own creator, started them. A server often has many that inherited its
// socket.
func together(items []WhyDocument) map[int][]int {
	with, held := make(map[int][]int), make([]string, len(items))
	for i := range items {
		lines, unknown := holdings(items[i].Holds)
		held[i] = strings.Join(append(lines, unknown...), "\n")
	}
	for i := range items {
		top := i
		for j := range items {
			if held[j] == held[i] && above(&items[j], &items[top]) {
				top = j
			}
		}
		first := top
		for j := range items[:top] {
			if held[j] == held[i] && siblings(&items[j], &items[top]) {
				first = j
				break
			}
		}
		if first != i {
			with[first] = append(with[first], i)
		} else if with[i] == nil {
			with[i] = []int{}
		}
	}
	return with
}

// creator is who started a process: for one outside any session, its parent.
func creator(w *WhyDocument) api.Ref {
	switch {
	case len(w.Edges) > 0 && w.Edges[0].Creator != nil:
		return w.Edges[0].Creator.Ref
	case w.Session == nil && w.Parent != nil:
		return w.Parent.Ref
	}
	return api.Ref{}
}

func sameSession(a, b *WhyDocument) bool {
	return cmp.Or(a.Session, &api.Session{}).ID == cmp.Or(b.Session, &api.Session{}).ID
}

// above reports whether a is an ancestor of b. The host's init is not: it opens sockets for
// services, and the service is what is asked for.
func above(a, b *WhyDocument) bool {
	if a.Process.PID <= 1 || !sameSession(a, b) {
		return false
	}
	return creator(b) == a.Process.Ref ||
		slices.ContainsFunc(b.Edges, func(e api.Edge) bool { return e.Creator != nil && e.Creator.Ref == a.Process.Ref }) ||
		slices.ContainsFunc(b.Ancestors, func(p api.Process) bool { return p.PID == a.Process.PID })
}

// siblings reports whether one member of a session started both.
func siblings(a, b *WhyDocument) bool {
	return a.Session != nil && sameSession(a, b) && creator(a) != (api.Ref{}) && creator(a) == creator(b)
}
