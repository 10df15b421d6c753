package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Event is an event on one line: time, type, session, process, details.
func Event(p *Page, ev *api.Event) string {
	when := ""
	if ev.Time != nil {
		when = ev.Time.In(p.Now.Location()).Format("15:04:05.000")
		if clock := p.clock(ev.Time); len(clock) > len(time.TimeOnly) { // of another day
			when = clock[:len(time.DateOnly)+1] + when
		}
	} else if ev.TimeNS != 0 {
		when = fmt.Sprintf("%.3f", time.Duration(ev.TimeNS).Seconds())
	}
	session := ev.Session
	if pr := ev.Process; pr != nil {
		session = cmp.Or(session, pr.Session)
	}
	parts := []string{fmt.Sprintf("%-12s  %-8s  %-6s", when, display.Text(string(ev.Type)),
		display.Text(cmp.Or(session, "-")))}
	if pr := ev.Process; pr != nil {
		parts = append(parts, strings.TrimSuffix(Ref(p, pr.Ref)+" "+p.Command(pr), " ?")) // a name may be unknown
	}
	if about := display.About(ev, func(r api.Ref) string { return Ref(p, r) }); about != "" {
		parts = append(parts, about)
	}
	line := strings.Join(parts, "  ")
	if p.Width > 0 && !p.Wide {
		line = Fit(line, p.Width)
	}
	return line
}
