package main

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

// heldTexts says what somebody holds, an item each.
func heldTexts(ports []api.Port, locks []api.Lock) (all []string) {
	for i := range ports {
		all = append(all, display.Port(&ports[i]))
	}
	for i := range locks {
		all = append(all, display.Lock(&locks[i]))
	}
	return all
}

// writeHolds says what a process holds, a line each.
func writeHolds(p *page, h *api.Holds) {
	if h == nil {
		return
	}
	for _, s := range heldTexts(h.Ports, h.Locks) {
		p.line("  holds %s", s)
	}
	for i := range h.Files {
		p.line("  has %s", fileText(&h.Files[i]))
	}
	for _, s := range h.Unknown {
		p.line("  not known of what it holds: %s", display.Text(s))
	}
}

func holdersListing(h *api.Holders) listing {
	h.Head = head("holders")
	l := listing{doc: h, text: func(p *page) { writeHolders(p, h) }}
	for i := range h.Items {
		item := h.Items[i]
		item.Head = api.Head{Kind: "why"}
		l.items = append(l.items, item)
		if item.Process.PID != 0 {
			l.names = append(l.names, item.Process.Ref.String())
		}
	}
	return l
}

func writeHolders(p *page, h *api.Holders) {
	for i := range h.Items {
		w := &h.Items[i]
		if w.Process.PID == 0 {
			p.line("%s", p.paint(bold, "nobody that could be found, or the kernel itself:"))
			writeHolds(p, w.Holds)
			continue
		}
		writeWhy(p, w)
	}
	if h.TimeWait > 0 {
		p.line("%s in TIME_WAIT", count(h.TimeWait, "connection", "connections"))
	}
	if h.Hidden > 0 {
		p.line("%d more that you may not see; run with sudo", h.Hidden)
	}
	for _, s := range h.Unknown {
		p.line("not known: %s", display.Text(s))
	}
}

// writeFreed says what became of the ports and locks that an ended session
// held, and who keeps its output open.
func writeFreed(p *page, r *api.Report) {
	say := func(what string, texts []string) {
		for _, s := range texts {
			p.line("  %s %s", what, s)
		}
	}
	say("freed", heldTexts(r.PortsFreed, nil))
	for i := range r.PortsTimeWait {
		w := &r.PortsTimeWait[i]
		p.line("  %s has %s in TIME_WAIT", display.Port(w), count(w.Connections, "connection", "connections"))
	}
	for i := range r.PortsBusy {
		p.line("  %s", p.paint(yellow, "still busy: "+display.Port(&r.PortsBusy[i])+holder(r.PortsBusy[i].PID)))
	}
	say("released", heldTexts(nil, r.LocksReleased))
	for i := range r.LocksHeld {
		p.line("  %s", p.paint(yellow, "still held: "+display.Lock(&r.LocksHeld[i])+holder(r.LocksHeld[i].PID)))
	}
	for i := range r.OutputHeldBy {
		o := &r.OutputHeldBy[i]
		p.line("  %s", p.paint(yellow, fmt.Sprintf("its output is still open in %s %s", refText(p, o.Ref), p.command(o))))
	}
	for _, s := range r.HoldsUnknown {
		p.line("  not known of ports and locks: %s", display.Text(s))
	}
}

func holder(pid int) string {
	if pid == 0 {
		return ", by nobody that could be found"
	}
	return fmt.Sprintf(", by %d", pid)
}
