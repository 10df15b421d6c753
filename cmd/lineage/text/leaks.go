package text

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Leaks shows what sessions hold and how it grows.
func Leaks(d *api.Leaks) *Listing {
	d.Head = Head("leaks")
	if d.Items == nil {
		d.Items = []api.Leak{}
	}
	l := &Listing{Doc: d, Text: func(p *Page) { writeLeaks(p, d) }}
	for i := range d.Items {
		d.Items[i].Head = api.Head{Kind: "leak"}
		l.Items = append(l.Items, d.Items[i])
		l.Names = append(l.Names, d.Items[i].Session)
	}
	return l
}

// mostCommands is how many commands of a session a table shows; wide shows all.
const mostCommands = 5

func writeLeaks(p *Page, d *api.Leaks) {
	if d.Host != nil {
		writeLeak(p, "host", d.Host)
	}
	for i := range d.Items {
		l := &d.Items[i]
		writeLeak(p, strings.TrimSpace("session "+l.Session+" "+l.Name), l)
	}
	if d.Host == nil && len(d.Items) == 0 {
		p.Line("no session to report on")
	}
	if d.Truncated {
		p.Line("growth is not kept for all commands: there are too many")
	}
	for _, name := range d.KeepUnmatched {
		p.Line("keep rule %s has matched nothing yet", display.Text(name))
	}
}

func writeLeak(p *Page, what string, l *api.Leak) {
	parts := []string{display.Count(l.Processes, "process", "processes")}
	parts = append(parts, anyOf(l.Leftovers, "leftover")...)
	parts = append(parts, anyOf(l.Orphans, "orphan")...)
	parts = append(parts, anyOf(l.Zombies, "zombie")...)
	growth := growthText(&l.Growth)
	if !l.Growth.Known {
		growth = "growth: " + growth
	}
	parts = append(parts, display.Size(l.RSSBytes), growth)
	color := bold
	if l.HoursToExhaustion != nil && growth != noGrowth {
		parts = append(parts, fmt.Sprintf("%s used up in %s", l.Exhausts, hoursText(*l.HoursToExhaustion)))
		if *l.HoursToExhaustion < 24 {
			color = red
		}
	}
	p.Wrap(0, p.paint(color, display.Text(what+": "+strings.Join(parts, ", "))))
	if text := display.Kept(&api.Session{Kept: l.Kept, Until: l.Until, Reason: l.Reason, KeptBy: l.KeptBy, KeepRule: l.KeepRule}); text != "" {
		p.Line("  %s", text)
	}
	var t table
	for i := range l.Commands {
		if i == mostCommands && !p.Wide {
			break
		}
		c := &l.Commands[i]
		growth := growthText(&c.Growth)
		if !c.Growth.Known && !l.Growth.Known {
			growth = "" // already shown
		}
		t.row("", c.Comm, fmt.Sprintf("×%d", c.Processes), display.Size(c.RSSBytes), growth)
	}
	t.write(p)
	if n := len(l.Commands) - mostCommands; n > 0 && !p.Wide {
		p.Line("  and %s", display.Count(n, "more command", "more commands"))
	}
	for _, held := range heldTexts(l.Ports, l.Locks) {
		p.Line("  holds %s", held)
	}
}

// anyOf counts processes of a kind, if there are any.
func anyOf(n int, kind string) []string {
	if n <= 0 {
		return nil
	}
	return []string{display.Count(n, kind, kind+"s")}
}

// noGrowth is a growth below what is shown.
const noGrowth = "no growth"

// growthText is the growth per hour, or why it is not known.
func growthText(g *api.Growth) string {
	if !g.Known || g.ProcessesPerHour == nil || g.BytesPerHour == nil {
		why := cmp.Or(g.Why, "not known")
		if g.OverSeconds > 0 {
			why += fmt.Sprintf(" (%v)", time.Duration(g.OverSeconds*float64(time.Second)).Round(time.Minute))
		}
		return why
	}
	var parts []string
	n := math.Round(*g.ProcessesPerHour*10) / 10
	if math.Abs(n) >= 100 {
		n = math.Round(n)
	}
	if n != 0 {
		noun := "processes"
		if math.Abs(n) == 1 {
			noun = "process"
		}
		parts = append(parts, fmt.Sprintf("%+g %s/h", n, noun))
	}
	if b := *g.BytesPerHour; math.Abs(b) >= 1<<20 {
		sign := "+"
		if b < 0 {
			sign = "-"
		}
		parts = append(parts, sign+display.Size(uint64(math.Abs(b)))+"iB/h")
	}
	if len(parts) == 0 {
		return noGrowth
	}
	return strings.Join(parts, ", ")
}

// hoursText says how soon that is, rounded down.
func hoursText(h float64) string {
	switch {
	case h < 1:
		return display.Count(int(h*60), "minute", "minutes")
	case h < 10:
		return fmt.Sprintf("%g h", math.Floor(h*10)/10)
	case h < 72:
		return fmt.Sprintf("%d h", int(h))
	}
	return fmt.Sprintf("%d days", int(h/24))
}
