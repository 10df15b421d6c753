package text

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// reportsDocument is the document of `end -o json` for several sessions.
type reportsDocument struct {
	api.Head
	Items []*api.Report `json:"items"`
}

// Receipt is how one session ended.
type Receipt struct {
	Report *api.Report
	// Before is when it ended, if that was before this request.
	Before *time.Time
}

// Receipts shows how sessions ended; several makes the document a list.
func Receipts(receipts []Receipt, several bool) *Listing {
	l := &Listing{Text: func(p *Page) {
		for _, r := range receipts {
			writeReport(p, r)
		}
	}}
	reports := []*api.Report{}
	for _, r := range receipts {
		reports = append(reports, r.Report)
		l.Items = append(l.Items, r.Report)
		l.Names = append(l.Names, r.Report.Session)
	}
	if several {
		l.Doc = reportsDocument{Head("reports"), reports}
	} else {
		l.Doc = reports[0]
	}
	return l
}

const (
	// shownOutcomes limits the rows of a receipt on a page that is not wide. Processes
	// that are left always have a row.
	shownOutcomes = 20
	// equalRows is how many equal processes have a row each, and how many zombies of one reaper a name.
	equalRows = 3
)

func writeReport(p *Page, receipt Receipt) {
	r := receipt.Report
	p.Line("%s", p.paint(bold, display.Text(receiptTitle(p, receipt))))
	zombies := map[string][]string{} // by their reaper
	for i := range r.Zombies {
		z, reaper := r.Zombies[i], "?"
		if z.Reaper != nil {
			reaper = fmt.Sprintf("%d %s", z.Reaper.PID, p.Command(z.Reaper))
		}
		zombies[reaper] = append(zombies[reaper], Ref(p, z.Ref)+" "+display.Text(cmp.Or(z.Comm, "?")))
	}
	var t table
	rest := t.alike(p, outcomeRows(p, r.Processes), shownOutcomes)
	t.write(p)
	for _, how := range slices.Sorted(maps.Keys(rest)) {
		p.Line("  … %d more: %s", rest[how], how)
	}
	for _, reaper := range slices.Sorted(maps.Keys(zombies)) {
		if n := len(zombies[reaper]); n > equalRows && !p.Wide {
			zombies[reaper] = []string{fmt.Sprintf("×%d", n)}
		}
		p.Wrap(2, fmt.Sprintf("zombies, to be reaped by %s: %s", reaper, strings.Join(zombies[reaper], ", ")))
	}
	if r.Truncated {
		p.Line("  … %d more", display.Unnamed(r))
	}
	if len(r.WouldEnd) > 0 {
		p.Line("  the policy would have ended it: %s", display.Text(strings.Join(r.WouldEnd, ", ")))
	}
	for _, h := range display.AfterEnd(r, func(o *api.Process) string { return Ref(p, o.Ref) + " " + p.Command(o) }) {
		switch {
		case h.Bad():
			p.Line("  %s", p.paint(yellow, h.String()))
		case h.State == display.NotKnown:
			p.Wrap(2, h.String())
		default:
			p.Line("  %s", h)
		}
	}
	for i := range r.Brokered {
		p.Line("  %s", display.Brokered(&r.Brokered[i], r.Session))
	}
}

// receiptTitle says how the session ended.
func receiptTitle(p *Page, receipt Receipt) string {
	r := receipt.Report
	ended, members := display.Ended(r)
	name, took := strings.TrimSpace(r.Session+" "+r.Name), display.Duration(time.Duration(r.DurationMS*float64(time.Millisecond)))
	if r.Verdict == "" {
		return fmt.Sprintf("%s: still ending after %s: %d of %s dead", name, took, ended, display.Count(members, "process", "processes"))
	}
	title := name + ": ended, " + string(r.Verdict) + ": "
	if receipt.Before != nil {
		title = name + ": already ended " + p.since(receipt.Before) + " ago, " + string(r.Verdict) + ": "
	}
	if members == 0 && r.Verdict == api.VerdictClean {
		return title + "no process was left over"
	}
	return title + display.Count(ended, "process", "processes") + " in " + took
}

// outcomeRows are rows of how processes ended.
func outcomeRows(p *Page, processes []api.Outcome) []alike {
	colors := map[api.OutcomeKind]string{api.OutcomeSelf: dim, api.OutcomeKill: yellow, api.OutcomeLeft: red}
	rows := make([]alike, len(processes))
	for i := range processes {
		o := &processes[i]
		rows[i] = alike{o.Ref, o.Outcome == api.OutcomeLeft, sort{display.Outcome(o), colors[o.Outcome], display.InContainer(p.command(o.Argv, o.Comm, false), o.Container), ""}}
	}
	return rows
}

// Shortfall says on one line what an end did not reach.
func Shortfall(r *api.Report) string {
	s := fmt.Sprintf("session %s: ", r.Session)
	ended, members := display.Ended(r)
	switch r.Verdict {
	case "unknown":
		return s + "no proof that nothing is left: " + cmp.Or(r.VerdictWhy, "the daemon does not say why")
	case "":
		return s + fmt.Sprintf("not over yet, %d of %s ended; it continues, see \"lineage tree %s\"",
			ended, display.Count(members, "process", "processes"), r.Session)
	}
	s += fmt.Sprintf("%d of %s ended, %d left", ended, display.Count(members, "process", "processes"), r.Left)
	var reasons []string
	pids := map[string][]string{}
	for _, o := range r.Processes {
		if o.Outcome != api.OutcomeLeft {
			continue
		}
		why := cmp.Or(o.Why, "for no known reason")
		if pids[why] == nil {
			reasons = append(reasons, why)
		}
		pids[why] = append(pids[why], fmt.Sprint(o.PID))
	}
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("%s (%s)", why, strings.Join(pids[why], " "))
	}
	if len(reasons) > 0 {
		s += " " + strings.Join(reasons, ", ")
	}
	if r.VerdictWhy != "" {
		s += "; " + r.VerdictWhy
	}
	return s
}
