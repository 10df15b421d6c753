package panes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// Labels are what a pane needs to describe rows.
type Labels struct {
	ink.Theme
	Picture  *picture.Picture
	Now      time.Time
	Boot     time.Time            // when the clock of the picture was 0
	Limit    int                  // bytes of a command that is shown on one line
	Activity map[string][]float64 // CPU% of each session, once a second
}

// Look is how the state of a process is shown.
type Look struct {
	ink.Paint
	Glyph, Letter string
}

func (k Look) String() string { return k.Glyph + k.Letter }

func (l *Labels) Look(r *picture.Row) Look {
	if r.Kind == picture.SessionRow {
		switch r.Session.State {
		case "ending", "condemned":
			return Look{l.Ended, l.EndedGlyph, "E"}
		case api.StateEnded:
			return Look{l.Exited, l.ExitedGlyph, "X"}
		}
		return Look{l.Session, "", ""}
	}
	return l.Process(r.Process)
}

func (l *Labels) Process(p *api.Process) Look {
	letter := " "
	if p.Stopped != nil {
		letter = "T"
	}
	switch {
	case l.endedByUs(p):
		return Look{l.Ended, l.EndedGlyph, "E"}
	case p.State == api.StateExited:
		return Look{l.Exited, l.ExitedGlyph, "X"}
	case p.State == api.StateZombie:
		return Look{l.Zombie, " ", "Z"}
	case Moved(p):
		return Look{l.Moved, l.MovedGlyph, letter}
	}
	return Look{l.Live, l.LiveGlyph, letter}
}

// Moved reports whether the kernel's parent is not the creator.
func Moved(p *api.Process) bool {
	return p.Orphan || p.Creator != nil && p.Parent != nil && p.Parent.PID != p.Creator.PID
}

// endedByUs reports whether a process died of a signal that its session's end sends.
func (l *Labels) endedByUs(p *api.Process) bool {
	s := l.Picture.Session(p.Session)
	if s == nil || p.State != api.StateExited || p.Signal != "SIGTERM" && p.Signal != "SIGKILL" {
		return false
	}
	switch s.Session.State {
	case "ending", "condemned", api.StateEnded:
		return true
	}
	return false
}

// Note says what the place, the letter and the figures of a row do not show, in words and
// in few cells.
func (l *Labels) Note(p *api.Process) (long, short string) {
	named := func(sign string, ref api.Ref) (long, short string) {
		return sign + l.Named(ref), fmt.Sprint(sign, ref.PID)
	}
	switch {
	case p.State == api.StateExited:
		return "", ""
	case p.State == api.StateZombie && p.Parent != nil:
		long, _ = named(howEnded(p)+" "+l.Up, *p.Parent)
		return long, howEnded(p)
	case p.State == api.StateZombie:
		return "", howEnded(p)
	case p.Orphan && p.Creator != nil:
		return named(l.MovedGlyph, *p.Creator)
	case p.Orphan:
		return "", "orphan"
	case Moved(p):
		return named("by ", *p.Creator)
	}
	if e := p.Evidence; e != nil && e.Kind != "fork" && e.Kind != "root" {
		return "", display.Text(e.Kind)
	}
	return "", ""
}

// Call names the tool calls that a process may belong to, in words and in few cells; "" if its
// creator's row says the same.
func (l *Labels) Call(p *api.Process) (long, short string) {
	if len(p.Calls) == 0 {
		return "", ""
	}
	long = display.Calls(p.Calls)
	if p.Creator != nil {
		if c := l.Picture.Process(*p.Creator); c != nil && display.Calls(c.Process.Calls) == long {
			return "", ""
		}
	}
	more := ""
	if n := len(p.Calls); n > 1 {
		more = fmt.Sprintf(" +%d", n-1)
	}
	return long, l.ShortCall(&p.Calls[0], more)
}

// ShortCall is the tool of a call and the end of its id, as the ids of an agent begin alike.
func (l *Labels) ShortCall(c *api.Call, more string) string {
	const toolColumns, idColumns = 12, 4
	id := display.Text(c.ID)
	if w := ink.Width(id); w > idColumns {
		id = l.Dots + ansi.TruncateLeft(id, w-idColumns+1, "")
	}
	return l.OpenClaim + strings.TrimSpace(l.Fit(display.Text(c.Tool),
		toolColumns)+" "+id) + more + l.CloseClaim
}

// SessionNotes say what the figures of a session do not show, the most urgent first.
// A session that is simply active has none.
func (l *Labels) SessionNotes(s *api.Session) (notes []string) {
	add := func(ok bool, text string) {
		if ok {
			notes = append(notes, display.Text(text))
		}
	}
	over := s.State == api.StateEnded
	add(s.Deadline != nil && !over, strings.NewReplacer("SIGKILL in", "kill", "SIGKILL is",
		"kill").Replace(l.Until(s.Deadline)))
	add(over && s.Verdict != "" && s.Verdict != "clean", string(s.Verdict))
	add(over, strings.TrimSpace(display.State(s)+" "+l.ago(s.Ended)))
	add(len(s.Degraded) > 0, "degraded")
	add(s.State != "active" && !over && s.Deadline == nil, string(cmp.Or(s.State, "not known")))
	add(s.Paused != nil && !over, display.Paused(s))
	add(s.Kept, "kept")
	return notes
}

// Remains say what a live session has that should be gone, unless there is a column for it.
func Remains(s *api.Session, column func(name string) bool) (notes []string) {
	if s.Leftovers > 0 && !column("leftovers") {
		notes = append(notes, display.Count(s.Leftovers, "leftover", "leftovers"))
	}
	if s.Zombies > 0 && !column("zombies") {
		notes = append(notes, display.Count(s.Zombies, "zombie", "zombies"))
	}
	return notes
}

func (l *Labels) Joined(notes []string) string { return strings.Join(notes, " "+l.Sep+" ") }

func (l *Labels) ago(t *time.Time) string {
	if t == nil {
		return ""
	}
	return display.Age(l.Now.Sub(*t)) + " ago"
}

// Until says how long it is until SIGKILL.
func (l *Labels) Until(t *time.Time) string {
	if t == nil {
		return ""
	}
	if left := t.Sub(l.Now); left > 0 {
		return "SIGKILL in " + display.Age(left.Round(time.Second))
	}
	return "SIGKILL is due"
}

func (l *Labels) Named(ref api.Ref) string {
	if r := l.Picture.Process(ref); r != nil {
		return ProcessLabel(r.Process)
	}
	return fmt.Sprint(ref.PID)
}

// Command shows briefly what a process runs, and with about Limit bytes of arguments.
func (l *Labels) Command(p *api.Process) string {
	return l.brief(p.Argv, p.Comm, p.ArgvTruncated)
}

// Began shows briefly what the root of a session began it with.
func (l *Labels) Began(root *api.Process) string { return l.brief(display.Began(root)) }

func (l *Labels) brief(argv []string, comm string, truncated bool) string {
	return display.Brief(argv, comm, truncated, max(l.Limit, 1))
}

func (l *Labels) Row(r *picture.Row) string {
	if r.Kind == picture.SessionRow {
		return SessionLabel(r.Session)
	}
	return ProcessLabel(r.Process)
}

func (l *Labels) Born(p *api.Process) time.Time {
	if p.Started != nil {
		return *p.Started
	}
	return l.Boot.Add(time.Duration(p.StartNS))
}

// Clock shows a time as hour, minute and second, with its date unless it is today.
func (l *Labels) Clock(t time.Time) string { return display.Clock(t, l.Now) }

// whoEnded says how a process exited, with who sent the signal, if that is known.
func whoEnded(p *api.Process) string { return display.Exited(p, "", "exit ") }

// howEnded is whoEnded without the sender.
func howEnded(p *api.Process) string {
	alone := *p
	alone.Killer = nil
	return whoEnded(&alone)
}

// SessionLabel is the id of a session and, if it has one, the name.
func SessionLabel(s *api.Session) string {
	return display.Text(strings.TrimSpace(cmp.Or(s.ID, "no session") + " " + s.Name))
}

func ProcessLabel(p *api.Process) string {
	if p == nil {
		return "unknown process"
	}
	return fmt.Sprintf("%d %s", p.PID, display.Name(p))
}

// Ports shows the lowest ports, as many as fit, and how many more there are.
func Ports(ports []int, columns int) string {
	text := ""
	for i, port := range ports {
		shown := strings.TrimSpace(fmt.Sprint(text, " ", port))
		more := ""
		if left := len(ports) - i - 1; left > 0 {
			more = fmt.Sprintf("+%d", left)
		}
		if i > 0 && len(shown)+len(more) > columns {
			return fmt.Sprintf("%s+%d", text, len(ports)-i)
		}
		text = shown
	}
	return text
}
