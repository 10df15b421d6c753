package text

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func fileText(f *api.File) string {
	how := map[string]string{"read": "for reading", "write": "for writing", "read_write": "for reading and writing"}[f.Access]
	return strings.TrimSpace(display.Text(f.Path) + " open " + how)
}

// heldTexts describes held ports and locks, one text for each.
func heldTexts(ports []api.Port, locks []api.Lock) (all []string) {
	for i := range ports {
		all = append(all, display.Port(&ports[i]))
	}
	for i := range locks {
		all = append(all, display.Lock(&locks[i]))
	}
	return all
}

// portText says that a process listens on a port, or when it did.
func portText(p *Page, port *api.Port) string {
	if port.Since == nil {
		return "holds " + display.Port(port)
	}
	until := "until a time that is not known"
	if port.Until != nil {
		until = "until " + p.clock(port.Until)
	}
	return fmt.Sprintf("listened on %s from %s %s", display.Port(port), p.clock(port.Since), until)
}

// writeHolds says what a process holds, one a line.
func writeHolds(p *Page, h *api.Holds) {
	if h == nil {
		return
	}
	for i := range h.Ports {
		p.Line("  %s", portText(p, &h.Ports[i]))
	}
	for _, s := range heldTexts(nil, h.Locks) {
		p.Line("  holds %s", s)
	}
	for i := range h.Files {
		p.Line("  has %s", fileText(&h.Files[i]))
	}
	for _, s := range h.Unknown {
		p.Wrap(2, "not known of what it holds: "+display.Text(s))
	}
}

// Holders shows which processes hold a port or a file, named what.
//
// ancestors gives the parents of a process on this host; nil: they are not known.
func Holders(found *api.Holders, what string, ancestors func(pid int) []api.Process) *Listing {
	found.Head = Head("holders")
	h := &HoldersDocument{Holders: *found, Items: []WhyDocument{}}
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

func writeHolders(p *Page, h *HoldersDocument, what string) {
	what = display.Text(what)
	for i := range h.Items {
		w := &h.Items[i]
		if w.Process.PID == 0 {
			p.Line("%s", p.paint(bold, what+" is held by no process that could be found, or by the kernel itself"))
			writeHolds(p, w.Holds)
			continue
		}
		holds := "is"
		if w.Holds != nil && len(w.Holds.Ports) > 0 && w.Holds.Ports[0].Since != nil {
			holds = "was"
		}
		writeWhy(p, &w.Why, fmt.Sprintf("%s %s held by %s %s", what, holds, Ref(p, w.Process.Ref), p.name(&w.Process)))
		writeOutside(p, w)
	}
	if h.TimeWait > 0 {
		p.Line("%s in TIME_WAIT", display.Count(h.TimeWait, "connection", "connections"))
	}
	if h.Hidden > 0 {
		p.Line("%d more that you may not see; run with sudo", h.Hidden)
	}
	for _, s := range h.Unknown {
		p.Wrap(0, "not known: "+display.Text(s))
	}
	hintEnd(p, h.Holders.Items)
}
