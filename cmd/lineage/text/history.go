package text

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// History lists ended sessions.
func History(list *api.Sessions) Listing {
	l := Sessions(list)
	l.Text = func(p *Page) { writeHistory(p, list.Items) }
	return l
}

func writeHistory(p *Page, sessions []api.Session) {
	var t table
	header := []string{"ID", "NAME", "ENDED", "DURATION", "REASON", "VERDICT", "PROCESSES", "CPU", "ROOT"}
	if p.Wide {
		header = append(header, "STARTED", "UID", "PARENT", "PEAK", "LEVEL", "COMMAND")
	}
	t.row(header...)
	for i := range sessions {
		s := &sessions[i]
		row := []string{s.ID, cmp.Or(s.Name, "-"), wallTime(p, s.Ended), lasted(s), cmp.Or(s.EndReason, "-"), cmp.Or(s.Verdict, "-"),
			fmt.Sprint(s.Forks + 1), display.CPU(s.CPUSeconds), rootName(s)}
		if p.Wide {
			row = append(row, wallTime(p, s.Started), fmt.Sprint(s.UID), cmp.Or(s.Parent, "-"), fmt.Sprint(s.Peak), fmt.Sprint(s.Level), rootCommand(p, s))
		}
		for i := range row {
			row[i] = display.Text(row[i])
		}
		t.paintedRow([]string{bold, "", "", "", "", verdictColor(s.Verdict)}, row...)
	}
	t.write(p)
}

// wallTime is a date with its time, however near.
func wallTime(p *Page, t *time.Time) string {
	if t == nil {
		return "-" // of a session that went with its host nobody knows it
	}
	return t.In(p.Now.Location()).Format(time.DateTime)
}

// lasted is from a session's start to its end.
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

func verdictColor(verdict string) string {
	switch verdict {
	case "clean":
		return ""
	case "left":
		return red
	}
	return yellow
}

// pastDocument is `history SESSION -o json`.
type pastDocument struct {
	api.Head
	Session *api.Session `json:"session"`
	Report  *api.Report  `json:"report"`
	Roots   []api.Ref    `json:"roots"`
	Nodes   []api.Node   `json:"nodes"`
}

// Past shows an ended session: what it was, how it ended, and the processes of t;
// leftOut is how many processes t lacks.
func Past(r *api.Report, t *api.Tree, leftOut int) Listing {
	t.Session.Head, r.Head = api.Head{Kind: "session"}, api.Head{Kind: "report"}
	l := Trees([]api.Tree{*t}, true, false)
	l.Doc = pastDocument{Head("history"), t.Session, r, append([]api.Ref{}, t.Roots...), append([]api.Node{}, t.Nodes...)}
	l.Items = append([]any{t.Session, r}, l.Items...)
	l.Names = []string{t.Session.ID}
	draw := l.Text
	l.Text = func(p *Page) {
		s := t.Session
		when := "when it ended is not known"
		if s.Ended != nil {
			when = fmt.Sprintf("ended %s, lasted %s", wallTime(p, s.Ended), lasted(s))
		}
		p.Line("started %s, %s", wallTime(p, s.Started), when)
		writeReport(p, r)
		if by := r.EndedBy; by != nil {
			p.Line("  ended by uid %d, pid %d %s", by.UID, by.PID, display.Text(by.Comm))
		}
		if r.VerdictWhy != "" {
			p.Line("  %s", display.Text(r.VerdictWhy))
		}
		p.Line("")
		draw(p)
		if leftOut > 0 {
			p.Line("%s; --all shows them", Count(leftOut, "more process", "more processes"))
		}
	}
	return l
}
