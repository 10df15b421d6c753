package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Levels is what each guarantee level means, for people.
var Levels = [...]string{
	1: "processes are attributed and counted, even if no daemon runs",
	2: "sessions are ended without a race, from user space",
	3: "the kernel ends a session in one call",
	4: "the kernel ends a session when its root exits, even if no daemon runs",
}

func Doctor(d api.Doctor) *Listing {
	d.Head = api.NewHead("doctor")
	l := &Listing{Doc: d, Text: func(p *Page) { writeDoctor(p, &d) }}
	for _, row := range d.Items {
		l.Items = append(l.Items, struct {
			api.Head
			api.DoctorItem
		}{api.Head{Kind: "feature"}, row})
	}
	return l
}

func checked(p *Page, c *api.SelfCheck) (verdict, color string) {
	verdict, color = "passed", green
	if !c.OK {
		verdict, color = "FAILED: "+cmp.Or(c.Why, "unknown"), red
	}
	if c.At != nil {
		verdict = c.At.In(p.Now.Location()).Format(time.DateTime) + " " + verdict
	}
	return verdict, color
}

func writeDoctor(p *Page, d *api.Doctor) {
	verdict, color := "sessions can be tracked and ended here", green
	if !d.Supported {
		verdict, color = "sessions cannot be tracked", red
		for _, row := range d.Items {
			if row.Required && !row.OK {
				verdict += ": " + cmp.Or(row.Why, row.Feature)
				break
			}
		}
	}
	p.Wrap(0, p.paint(color, display.Text(fmt.Sprintf("kernel %s: %s", d.Kernel, verdict))))
	if d.Level > 0 && d.Level < len(Levels) {
		p.Wrap(0, fmt.Sprintf("level %d of %d: %s", d.Level, len(Levels)-1, Levels[d.Level]))
	}
	for _, what := range d.Missing {
		p.Wrap(0, display.Text(what))
	}
	if c := d.SelfCheck; c != nil {
		verdict, color := checked(p, c)
		p.Wrap(0, p.paint(color, display.Text("the daemon's self-check at "+verdict)))
	}
	if d.Halt != nil {
		p.Wrap(0, p.paint(red, display.HaltLine(d.Halt)))
	}
	for _, what := range d.Degraded {
		p.Wrap(0, p.paint(red, display.Text("the daemon is degraded: "+what)))
	}
	if len(d.Capabilities) > 0 {
		p.Wrap(0, display.Text("the daemon's capabilities: "+strings.Join(d.Capabilities, " ")))
	}
	// Advice is useless in part, so it is wrapped, not cut.
	features := 0
	for _, row := range d.Items {
		features = max(features, width(display.Text(row.Feature)))
	}
	for _, row := range d.Items {
		mark, color, text := "ok", green, row.Why
		if !row.OK {
			mark, color = "no", yellow
			if row.Required {
				color = red
			}
			if row.Do != "" {
				text += "; " + row.Do
			}
		}
		feature := display.Text(row.Feature)
		p.column("  "+p.paint(color, mark)+"  "+feature+strings.Repeat(" ", features-width(feature)+2),
			features+8, display.Text(text))
	}
}
