package main

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

// reportsDocument is `end -o json` of several sessions.
type reportsDocument struct {
	api.Head
	Items []*api.Report `json:"items"`
}

// report prints the receipts, says on stderr what went wrong, and gives the
// worst exit code as a told error.
func (a *app) report(targets []*target, format string) error {
	var reports []*api.Report
	for _, t := range targets {
		if t.report != nil {
			t.report.Head = head("report")
			reports = append(reports, t.report)
		}
	}
	if len(reports) > 0 {
		if err := a.print(format, reportListing(reports, len(targets) > 1)); err != nil {
			return err
		}
	}
	worst := api.ExitOK
	for _, t := range targets {
		switch {
		case t.err != nil:
			a.complain(t.err)
			worst = max(worst, exitCode(t.err))
		case t.report.Verdict != api.VerdictClean:
			a.say("%s", shortfall(t.report))
			worst = max(worst, api.ExitLeft)
		}
	}
	if worst == api.ExitOK {
		return nil
	}
	return &exitError{code: worst}
}

func reportListing(reports []*api.Report, several bool) listing {
	l := listing{text: func(p *page) {
		for _, r := range reports {
			writeReport(p, r)
		}
	}}
	for _, r := range reports {
		l.items = append(l.items, r)
		l.names = append(l.names, r.Session)
	}
	if several {
		l.doc = reportsDocument{head("reports"), reports}
	} else {
		l.doc = reports[0]
	}
	return l
}

// shownOutcomes bounds the processes of a receipt that are named one by one on
// a page that is not wide. Those that are left always are.
const shownOutcomes = 20

func writeReport(p *page, r *api.Report) {
	words := map[api.OutcomeKind]struct{ text, color string }{
		api.OutcomeSelf: {"exited by itself", dim},
		api.OutcomeTerm: {"SIGTERM", ""},
		api.OutcomeKill: {"SIGKILL", yellow},
		api.OutcomeKept: {"kept", ""},
		api.OutcomeLeft: {"left", red},
	}
	state, verdict := api.StateEnded, r.Verdict
	if r.Verdict == "" {
		state, verdict = cmp.Or(r.State, api.StateEnding), "not over"
	}
	p.line("%s", p.paint(bold, display.Text(fmt.Sprintf("%s: %s, %s: %s in %v", strings.TrimSpace(r.Session+" "+r.Name), state, verdict,
		count(ended(r), "process", "processes"), millis(r.DurationMS)))))
	var t table
	rest := map[string]int{} // not shown, by how they went
	for i := range r.Processes {
		o := &r.Processes[i]
		word, ok := words[o.Outcome]
		if !ok {
			word.text = string(o.Outcome)
		}
		if len(t.rows) >= shownOutcomes && !p.wide && o.Outcome != api.OutcomeLeft {
			rest[word.text]++
			continue
		}
		if o.Why != "" {
			word.text += ": " + o.Why
		}
		pid := refText(p, o.Ref)
		command := display.Command(o.Argv, o.Comm, false, p.limit())
		if o.Container != "" {
			command += " in container " + display.Text(o.Container)
		}
		t.paintedRow([]string{"", "", word.color}, "", pid, display.Text(word.text), command)
	}
	zombies := map[string]int{} // not shown, by their reaper
	for i, z := range r.Zombies {
		reaper := "?"
		if z.Reaper != nil {
			reaper = fmt.Sprintf("%d %s", z.Reaper.PID, p.command(z.Reaper))
		}
		if i >= shownOutcomes && !p.wide {
			zombies[reaper]++
			continue
		}
		t.row("", refText(p, z.Ref), "zombie", display.Text(cmp.Or(z.Comm, "?"))+", waits to be reaped by "+reaper)
	}
	t.write(p)
	for _, how := range slices.Sorted(maps.Keys(rest)) {
		p.line("  … %d more: %s", rest[how], display.Text(how))
	}
	for _, reaper := range slices.Sorted(maps.Keys(zombies)) {
		p.line("  … %s wait to be reaped by %s", count(zombies[reaper], "more zombie", "more zombies"), reaper)
	}
	if r.Truncated {
		p.line("  … %d more", max(r.Started-r.Exited-len(r.Processes), 0))
	}
	writeFreed(p, r)
	for i := range r.Brokered {
		p.line("  %s", display.Brokered(&r.Brokered[i], r.Session))
	}
}

func millis(ms float64) time.Duration {
	d := time.Duration(ms * float64(time.Millisecond))
	return d.Round(max(d/1000, time.Microsecond))
}

// members is how many processes the end was about.
func members(r *api.Report) int {
	if r.Truncated {
		return max(r.Started-r.Exited, len(r.Processes))
	}
	return len(r.Processes)
}

func ended(r *api.Report) int { return members(r) - r.Left }

// shortfall says on one line what an end did not reach.
func shortfall(r *api.Report) string {
	s := fmt.Sprintf("session %s: ", r.Session)
	switch r.Verdict {
	case "unknown":
		return s + "it is not proven that nothing is left: " + cmp.Or(r.VerdictWhy, "the daemon does not say why")
	case "":
		return s + fmt.Sprintf("not over yet, %d of %s ended; it goes on, see \"lineage tree %s\"",
			ended(r), count(members(r), "process", "processes"), r.Session)
	}
	s += fmt.Sprintf("%d of %s ended, %d left", ended(r), count(members(r), "process", "processes"), r.Left)
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
		sep := " "
		if i > 0 {
			sep = ", "
		}
		s += fmt.Sprintf("%s%s (%s)", sep, why, strings.Join(pids[why], " "))
	}
	if r.VerdictWhy != "" {
		s += "; " + r.VerdictWhy
	}
	return s
}
