package text

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// History lists ended sessions.
func History(list *api.Sessions) *Listing {
	l := Sessions(list)
	shown := tabular(func(p *Page) table { return historyTable(p, list.Items) })
	l.Text, l.table = shown.Text, shown.table
	return l
}

// HistoryColumns are the columns of the list of ended sessions.
var HistoryColumns = []string{"id", "name", "ended", "duration", "reason", "verdict", "processes", "cpu",
	"started", "uid", "parent", "peak", "level", "root", "command"}

func historyTable(p *Page, sessions []api.Session) table {
	when := p.word
	t := table{drop: []string{"CPU", "PROCESSES", "ROOT", "DURATION", "VERDICT"}, wide: "STARTED UID PARENT PEAK LEVEL COMMAND"}
	t.row(header(HistoryColumns)...)
	if p.cuts() {
		t.rows[0][2], when = p.Now.Format("ENDED (MST)"), p.clock
	}
	for i := range sessions {
		s := &sessions[i]
		t.paintedRow([]string{bold, "", "", "", "", verdictColor(s.Verdict)}, s.ID, cmp.Or(s.Name, "-"), when(s.Ended), lasted(s), cmp.Or(s.EndReason, "-"), cmp.Or(string(s.Verdict), "-"),
			fmt.Sprint(s.Forks+1+s.Joined), display.CPU(s.CPUSeconds),
			p.word(s.Started), fmt.Sprint(s.UID), cmp.Or(s.Parent, "-"), fmt.Sprint(s.Peak), fmt.Sprint(s.Level), rootName(p, s), rootCommand(p, s))
	}
	return t
}

// lasted is the time from a session's start to its end.
func lasted(s *api.Session) string {
	if s.Started == nil || s.Ended == nil {
		return "-"
	}
	d := s.Ended.Sub(*s.Started)
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	}
	return display.Age(d)
}

func verdictColor(verdict api.Verdict) string {
	switch verdict {
	case api.VerdictClean:
		return ""
	case api.VerdictLeft:
		return red
	}
	return yellow
}

// Past shows an ended session: what it was, how it ended, and the processes of t;
// leftOut is how many processes are missing in t.
func Past(r *api.Report, t *api.Tree, leftOut int) *Listing {
	t.Session.Head, r.Head = api.Head{Kind: "session"}, api.Head{Kind: "report"}
	l := Trees([]api.Tree{*t}, true, false, false)
	l.Doc = api.Past{Head: Head("history"), Session: t.Session, Report: r, Roots: append([]api.Ref{}, t.Roots...), Nodes: append([]api.Node{}, t.Nodes...)}
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
		if r.VerdictWhy != "" {
			p.Wrap(2, display.Text(r.VerdictWhy))
		}
		p.Line("")
		draw(p)
		if leftOut > 0 {
			p.Line("%s; --all shows them", display.Count(leftOut, "more process", "more processes"))
		}
	}
	return l
}
