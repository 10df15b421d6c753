package main

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// report prints the receipts, says on stderr what went wrong, and gives the
// worst exit code as a told error.
func (a *app) report(targets []*target, format string) error {
	var reports []*api.Report
	for _, t := range targets {
		if t.report != nil {
			t.report.Head = text.Head("report")
			reports = append(reports, t.report)
		}
	}
	if len(reports) > 0 {
		if err := a.print(format, text.Receipts(reports, len(targets) > 1)); err != nil {
			return err
		}
	}
	worst := api.ExitOK
	for _, t := range targets {
		switch {
		case t.err != nil:
			a.complain(t.err)
			worst = max(worst, exitCode(t.err))
		case t.report.Verdict != "clean":
			a.say("%s", text.Shortfall(t.report))
			worst = max(worst, api.ExitLeft)
		}
	}
	if worst == api.ExitOK {
		return nil
	}
	return &exitError{code: worst}
}
