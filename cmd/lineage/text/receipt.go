package text

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

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
		l.add(r.Report, r.Report.Session)
	}
	l.Doc = documentOf(several, "reports", reports)
	return l
}

// shownRows limits the rows of a receipt, or of a question, on a page that is not wide.
const shownRows = 20

func writeReport(p *Page, receipt Receipt) {
	r := receipt.Report
	words := display.Receipted(r, p.names(shownRows))
	if receipt.Before != nil {
		words.Verdict = strings.Replace(words.Verdict, "ended",
			"already ended "+p.since(receipt.Before)+" ago", 1)
	}
	p.Wrap(0, p.paint(bold, fmt.Sprintf("%s: %v", display.Text(strings.TrimSpace(r.Session+" "+r.Name)), &words)))
	p.list(words.Rows, words.Notes)
}

func (p *Page) names(most int) display.Names {
	if p.Wide {
		most = 0
	}
	return display.Names{Exact: p.Wide, Most: most, Command: p.Command}
}

// list writes rows about processes, and what there is to say about all of them.
func (p *Page) list(rows []display.Row, notes []display.Note) {
	colors := [...]string{display.Faint: dim, display.Warn: yellow, display.Bad: red}
	var t table
	for i := range rows {
		r := &rows[i]
		cells := []string{"", r.PID, r.How, r.Command}
		if r.How == "" {
			cells = slices.Delete(cells, 2, 3)
		}
		t.paintedRow([]string{"", "", colors[r.Tone]}, cells...)
	}
	t.write(p)
	for _, n := range notes {
		p.Wrap(2, p.paint(colors[n.Tone], n.Text))
	}
}

// Shortfall says on one line what an end did not reach.
func Shortfall(r *api.Report) string {
	s := fmt.Sprintf("session %s: %s", r.Session, display.Verdict(r))
	if r.Verdict == "" {
		s += fmt.Sprintf("; it continues, see \"lineage tree %s\"", r.Session)
	}
	return s
}
