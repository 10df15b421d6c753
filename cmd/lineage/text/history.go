package text

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func History(list *api.Sessions) *Listing {
	l := Sessions(list)
	shown := tabular(func(p *Page) table { return historyTable(p, list.Items) })
	l.Text, l.table = shown.Text, shown.table
	return l
}

// Past shows an ended session: what it was, how it ended, and the processes of t;
// leftOut is how many processes are missing in t.
func Past(r *api.Report, t *api.Tree, leftOut int) *Listing {
	t.Session.Head, r.Head = api.Head{Kind: "session"}, api.Head{Kind: "report"}
	l := Trees([]api.Tree{*t}, true)
	l.Doc = api.Past{Head: api.NewHead("history"), Session: t.Session, Report: r,
		Roots: append([]api.Ref{}, t.Roots...), Nodes: append([]api.Node{}, t.Nodes...)}
	l.Items = append([]any{t.Session, r}, l.Items...)
	l.Names = []string{t.Session.ID}
	draw := l.Text
	l.Text = func(p *Page) {
		s := t.Session
		when := "when it ended is not known"
		if s.Ended != nil {
			when = fmt.Sprintf("ended %s, lasted %s", p.stamp(s.Ended), lasted(s))
		}
		p.Line("started %s, %s", p.stamp(s.Started), when)
		if s.Parent != "" {
			p.Line("inside session %s", display.Text(s.Parent))
		}
		writeReport(p, Receipt{Report: r})
		if by := r.EndedBy; by != nil {
			p.Wrap(2, "ended by "+display.Caller(by))
		}
		p.Line("")
		draw(p)
		if leftOut > 0 {
			p.Line("%s; --all shows them", display.Count(leftOut, "more process"))
		}
	}
	return l
}
