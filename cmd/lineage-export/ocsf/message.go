package ocsf

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

const commandBytes = 160

// The messages: one line each, safe to print.

func launchMessage(r *follow.Record) string {
	p := r.Process()
	if r.Kind == api.EventExec {
		return fmt.Sprintf("%s executed %s%s", named(was(r)), command(p), ofSession(r))
	}
	return fmt.Sprintf("%s forked process %d%s", named(known(r, p.Creator)), p.PID, ofSession(r))
}

func userName(u *account) string { return display.Text(cmp.Or(u.Name, u.UID)) }

func exitMessage(r *follow.Record) string {
	how := display.Exited(r.Process(), "was killed by ", "exited with code ")
	return fmt.Sprintf("%s %s%s", named(r.Process()), how, ofSession(r))
}

func endMessage(r *follow.Record, reason string) string {
	d := r.Report
	s := sessionName(r) + " ended"
	if reason != "" {
		s += " (" + display.Text(reason) + ")"
	}
	if d == nil {
		return s + ": no receipt"
	}
	s += fmt.Sprintf(": verdict %s, %s", display.Text(d.Verdict),
		display.Count(len(d.Processes), "process", "processes"))
	if d.Left > 0 {
		s += fmt.Sprintf(", %d left", d.Left)
	}
	return s
}

func outcomeMessage(r *follow.Record, o *api.Outcome) string {
	what := cmp.Or(strings.TrimSpace(outcomes[o.Outcome].detail),
		"outcome "+display.Text(string(o.Outcome)))
	return fmt.Sprintf("%s %s at the end of %s", nameOf(o.Ref, o.Comm), what, sessionName(r))
}

func lostMessage(e *api.Event) string {
	switch e.Where {
	case "restart":
		return "events are missing: no daemon ran"
	case "ring":
		return fmt.Sprintf("%s missing: the kernel's buffer was full", are(e.Count))
	case "history":
		return are(e.Count) + " missing: older than the history"
	}
	return are(e.Count) + " missing: " + display.Text(e.Where)
}

// are is the number of events with its verb.
func are(n uint64) string {
	switch n {
	case 0:
		return "events are"
	case 1:
		return "1 event is"
	}
	return fmt.Sprintf("%d events are", n)
}

func command(p *api.Process) string {
	return display.Command(p.Argv, cmp.Or(p.Exe, p.Comm), p.ArgvTruncated, commandBytes)
}

func named(p *api.Process) string {
	if p == nil {
		return "a process that is not known"
	}
	return nameOf(p.Ref, p.Comm)
}

func nameOf(p api.Ref, comm string) string {
	if comm == "" {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("%s (%d)", display.Text(comm), p.PID)
}

func ofSession(r *follow.Record) string { return " in " + sessionName(r) }

func sessionName(r *follow.Record) string {
	if r.Session == nil {
		return "no session"
	}
	return "session " + display.Text(cmp.Or(r.Session.Name, r.Session.ID))
}
