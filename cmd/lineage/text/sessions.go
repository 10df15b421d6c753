package text

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func Sessions(list *api.Sessions) *Listing {
	list.Head = api.NewHead("sessions")
	l := tabular(func(p *Page) table { return sessionsTable(p, list.Items) })
	l.Doc = list
	if list.Halt != nil {
		l.Also = display.HaltLine(list.Halt)
	}
	if list.Items == nil {
		list.Items = []api.Session{}
	}
	for i := range list.Items {
		list.Items[i].Head = api.Head{Kind: "session"}
		l.add(list.Items[i], list.Items[i].ID)
	}
	return l
}

func tabular(of func(*Page) table) *Listing {
	return &Listing{table: of, Text: func(p *Page) {
		t := of(p)
		t.write(p)
	}}
}

// SessionColumns are those of the list of sessions, HistoryColumns those of the list of ended ones.
var (
	SessionColumns = columns(sessionRow(&Page{}, &api.Session{}))
	HistoryColumns = []string{"id", "name", "ended", "duration", "reason", "verdict", "processes", "cpu",
		"started", "uid", "parent", "peak", "level", "root", "command"}
)

// cell is a part of a row: its column, its text, and the colour of that.
type cell struct{ column, text, color string }

func columns(row []cell) (names []string) {
	for _, c := range row {
		names = append(names, c.column)
	}
	return names
}

// sessionRow is a session in the list. Root and command may contain blanks, so no column that scripts cut at blanks
// comes after them.
func sessionRow(p *Page, s *api.Session) []cell {
	root, command, ended := "-", "-", p.word(s.Ended)
	if s.Root != nil {
		root, command = rootName(p, s.Root), p.command(display.Began(s.Root))
	}
	if p.cuts() {
		ended = p.clock(s.Ended)
	}
	return []cell{
		{"id", s.ID, bold},
		{"name", cmp.Or(s.Name, containerName(s), "-"), ""},
		{"state", stateText(s), stateColor(s)},
		{"live", fmt.Sprint(s.Live), ""},
		{"orphans", fmt.Sprint(s.Orphans), ""},
		{"zombies", fmt.Sprint(s.Zombies), ""},
		{"cpu", display.CPU(s.CPUSeconds), ""},
		{"cpus", fmt.Sprintf("%.1f", s.CPUs), ""},
		{"rss", memory(s), ""},
		{"ports", ports(s.Ports), ""},
		{"age", age(p, s), ""},
		{"evidence", cmp.Or(s.Evidence, "-"), ""},
		{"container", cmp.Or(s.Container.String(), "-"), ""},
		{"idle", idle(s), ""},
		{"event", p.since(s.LastEvent), ""},
		{"uid", fmt.Sprint(s.UID), ""},
		{"parent", cmp.Or(s.Parent, "-"), ""},
		{"peak", fmt.Sprint(s.Peak), ""},
		{"forks", fmt.Sprint(s.Forks), ""},
		{"grace", fmt.Sprintf("%gs", math.Round(s.GraceSeconds*1000)/1000), ""},
		{"level", fmt.Sprint(s.Level), ""},
		{"started", p.word(s.Started), ""},
		{"ended", ended, ""},
		{"duration", lasted(s), ""},
		{"reason", cmp.Or(s.EndReason, "-"), ""},
		{"verdict", cmp.Or(string(s.Verdict), "-"), verdictColors[s.Verdict]},
		{"processes", fmt.Sprint(s.Forks + 1 + s.Joined), ""},
		{"root", root, ""},
		{"command", command, ""},
	}
}

func sessionsTable(p *Page, sessions []api.Session) table {
	t := table{
		drop: lessWorth(sessions),
		wide: "CONTAINER IDLE EVENT UID PARENT PEAK FORKS GRACE LEVEL STARTED ENDED DURATION REASON VERDICT PROCESSES COMMAND",
	}
	t.row(header(SessionColumns)...)
	for i := range sessions {
		var texts, colors []string
		for _, c := range sessionRow(p, &sessions[i]) {
			texts, colors = append(texts, c.text), append(colors, c.color)
		}
		t.paintedRow(colors, texts...)
	}
	return t
}

// verdictColors mark what is not as it should be.
var verdictColors = map[api.Verdict]string{api.VerdictLeft: red, api.VerdictUnknown: yellow}

// historyTable has the columns that tell how sessions ended.
func historyTable(p *Page, sessions []api.Session) table {
	t := sessionsTable(p, sessions)
	t.pick(HistoryColumns)
	t.drop, t.wide = []string{"CPU", "PROCESSES", "ROOT", "DURATION",
		"VERDICT"}, "STARTED UID PARENT PEAK LEVEL COMMAND"
	return t
}

// lessWorth are the columns that a narrow terminal does without, the least worth first. What
// warns is worth most: ORPHANS, ZOMBIES, and STATE unless every session is just active. ROOT
// is worth little if every session has a name.
func lessWorth(sessions []api.Session) []string {
	named, active := true, true
	for i := range sessions {
		named = named && sessions[i].Name != ""
		active = active && stateText(&sessions[i]) == string(api.StateActive)
	}
	drop := []string{"EVIDENCE", "CPU", "AGE", "CPUS", "RSS", "ROOT", "ZOMBIES", "ORPHANS"}
	if named {
		drop = []string{"EVIDENCE", "ROOT", "CPU", "AGE", "CPUS", "RSS", "ZOMBIES", "ORPHANS"}
	}
	if active {
		drop = append([]string{"STATE"}, drop...)
	}
	return drop
}

// containerName stands for the name that a session of a container does not have. The
// parentheses say that no command finds the session by it.
func containerName(s *api.Session) string {
	if s.Container == nil {
		return ""
	}
	return "(" + s.Container.String() + ")"
}

// Leftover is shown as the state of an active session whose root is gone: what is left over of it. Paused
// is that of one whose members are stopped by a pause.
const Leftover, Paused = "leftover", "paused"

func stateText(s *api.Session) string {
	switch {
	case s.Kept:
		return stateText(&api.Session{State: s.State, Paused: s.Paused, Continued: s.Continued}) + ",kept"
	case s.IsPaused():
		return display.Paused(s)
	case s.IsLeftover():
		return Leftover
	}
	return string(s.State)
}

func ports(all []int) string {
	return cmp.Or(strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ","), "[]"), "-")
}

// idle is for how long a session has been idle, "-" if it is not.
func idle(s *api.Session) string {
	if s.IdleSeconds == 0 {
		return "-"
	}
	return display.Age(time.Duration(s.IdleSeconds * float64(time.Second)))
}

func age(p *Page, s *api.Session) string {
	if s.State == api.StateEnded {
		return lasted(s)
	}
	return p.since(s.Started)
}

func lasted(s *api.Session) string {
	if s.Started == nil || s.Ended == nil {
		return "-"
	}
	return display.Duration(s.Ended.Sub(*s.Started))
}

// memory is unknown until the daemon has looked at the members once. An ended session
// has none.
func memory(s *api.Session) string {
	if s.RSSBytes == 0 && s.Live > 0 || s.State == api.StateEnded {
		return "-"
	}
	return display.Size(s.RSSBytes)
}

// rootWidth is how much of its root's command says which session it is.
const rootWidth = 40

func rootName(p *Page, root *api.Process) string {
	name := root.Comm
	switch {
	case p.Wide && len(root.FirstArgv) > 0: // COMMAND is beside it
		name = path.Base(root.FirstArgv[0])
	case !p.Wide && len(root.Argv) > 0:
		name = Fit(p.command(display.Began(root)), rootWidth)
	}
	return strings.TrimSpace(fmt.Sprint(root.PID, " ", name))
}

func stateColor(s *api.Session) string {
	switch {
	case s.IsPaused(), s.IsLeftover() && !s.Kept:
		return yellow
	case s.State == api.StateActive:
		return green
	case s.State == api.StateEnding, s.State == api.StateCondemned:
		return red
	}
	return dim
}

func Title(s *api.Session) string {
	name := s.ID
	if s.Name != "" {
		name += " " + s.Name
	}
	parts := append([]string{display.State(s)}, display.Living(s)...)
	if s.Live == 0 && s.State != api.StateActive {
		parts = slices.Delete(parts, 1, 2)
	}
	if s.DelegatedBy != "" {
		parts = append(parts, "delegated by "+s.DelegatedBy)
	}
	if c := s.Container; c != nil {
		parts = append(parts, "in container "+c.String())
		if c.Image != "" {
			parts = append(parts, "image "+c.Image)
		}
	}
	if s.Kept {
		parts = append(parts, display.Kept(s))
	}
	if used := display.Account(s.Limits, s.Account); used != "" {
		parts = append(parts, used)
	}
	if len(s.Degraded) > 0 {
		parts = append(parts, "degraded: "+strings.Join(s.Degraded, ", "))
	}
	return display.Text(name + "  " + strings.Join(parts, ", "))
}
