package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// part is a piece of the status line, in the longest form that fits, or a warning.
type part struct {
	ink.Paint
	long, middle, short string
}

// statusLine shows the host's activity, and the daemon's abilities.
func (m *model) statusLine() string {
	k, t := &m.link, m.term.theme
	s := &k.status
	parts := []part{{t.Session, "lineage", "lineage", "lineage"}}
	if k.known {
		sessions, live, orphans := m.totals()
		facts := t.Live
		if k.stale(m.opts.Now()) > 0 {
			facts = t.Dim
		}
		forks := fmt.Sprintf("%.0f forks/s", m.rates.forks)
		parts = append(parts,
			part{long: sessions, middle: sessions},
			part{long: live, middle: live, short: live, Paint: facts},
			part{long: orphans, middle: orphans, Paint: t.Moved},
			part{long: forks, middle: forks, short: fmt.Sprintf("%.0f/s", m.rates.forks)})
		if s.Lost > 0 {
			lost := fmt.Sprintf("lost %d", s.Lost)
			parts = append(parts, part{long: lost, middle: lost, short: lost, Paint: t.Warn})
		}
		mode := display.Text(s.Mode)
		parts = append(parts,
			part{t.Dim, fmt.Sprintf("level %d, policy: %s", s.Level, mode),
				fmt.Sprintf("L%d %s", s.Level, mode), ""},
			m.freshness())
	}
	// The last parts are the least important.
	for i := 2*len(parts) - 1; i >= 0 && !m.fits(parts); i-- {
		p := &parts[i%len(parts)]
		p.long, p.middle = p.middle, p.short
	}
	return m.joined(parts)
}

func (m *model) fits(parts []part) bool {
	total := -2
	for _, p := range parts {
		if p.long != "" {
			total += ink.Width(p.long) + 2
		}
	}
	return total <= m.term.width
}

func (m *model) totals() (sessions, live, orphans string) {
	var n, alive, lost int
	m.view.Picture.AllSessions(func(r *picture.Row) {
		if r.Session.State == api.StateEnded {
			return
		}
		n++
		alive += r.Session.Live
		lost += r.Session.Orphans
	})
	if lost > 0 {
		orphans = display.Count(lost, "orphan", "orphans")
	}
	return display.Count(n, "session", "sessions"), fmt.Sprintf("%d live", alive), orphans
}

func (m *model) joined(parts []part) string {
	l := m.term.theme.Line(m.term.width)
	for _, p := range parts {
		if p.long == "" {
			continue
		}
		if l.Left < m.term.width {
			l.Put(ink.Paint{}, "  ")
		}
		l.Put(p.Paint, p.long)
	}
	return l.Full()
}

// freshness says how old the picture is while the daemon is away, else the result of
// the last self-check.
func (m *model) freshness() part {
	c, t := m.link.status.SelfCheck, m.term.theme
	if old := m.link.stale(m.opts.Now()); old > 0 {
		text := "STALE " + display.Age(old)
		return part{long: text, middle: text, short: text, Paint: t.Bad}
	}
	switch {
	case c == nil:
		return part{long: "no self-check yet", middle: "check -", Paint: t.Dim}
	case !c.OK:
		return part{long: "self-check FAILED", middle: "check FAILED", short: "check FAILED", Paint: t.Bad}
	}
	long := "self-check ok"
	if c.At != nil {
		long += " " + display.Age(m.opts.Now().Sub(*c.At)) + " ago"
	}
	return part{long: long, middle: "check ok", Paint: t.Dim}
}

// warnings stay on the screen while their condition holds, the worst first. None has a middle form.
func (m *model) warnings() (all []part) {
	k, t := &m.link, m.term.theme
	s := &k.status
	add := func(p ink.Paint, short, format string, args ...any) {
		all = append(all, part{p, display.Text(fmt.Sprintf(format, args...)), "", short})
	}
	switch {
	case k.away != nil && !k.known:
		add(t.Warn, "NO DAEMON", "waiting for a daemon since %s", display.Age(m.opts.Now().Sub(k.since)))
	case k.away != nil:
		add(t.Bad, "DAEMON AWAY", "the daemon is away for %s, trying again; everything here is from %s: %s",
			display.Age(m.opts.Now().Sub(k.since).Round(time.Second)),
			m.labels().Clock(k.fresh), display.Error(k.away))
	case !k.known:
		add(t.Warn, "WAITING", "waiting for the daemon's first picture")
	}
	if d := slices.Concat(s.Degraded, m.view.Picture.Degraded()); len(d) > 0 {
		add(t.Bad, "DEGRADED", "degraded: %s", strings.Join(d[:min(len(d), 16)], "; "))
	}
	if c := s.SelfCheck; c != nil && !c.OK {
		add(t.Bad, "CHECK FAILED", "the self-check failed: %s", cmp.Or(c.Why, "the daemon does not say why"))
	}
	if h := s.Halt; h != nil {
		short := "HALTED"
		if h.Mode == api.ModeDrain {
			short = "DRAINED"
		}
		add(t.Bad, short, "%s; until \"lineage halt --off\"", display.Halt(h))
	}
	if s.Breaker.Open {
		add(t.Bad, "BREAKER OPEN", "%s until \"lineage policy resume\": the policy ends none of their sessions",
			display.Breaker(s.Breaker))
	}
	if s.Lost > 0 {
		add(
			t.Warn,
			fmt.Sprintf("LOST %d", s.Lost),
			"%s lost: the history has gaps; which session a process belongs to is still right",
			display.Count(int(s.Lost), "event", "events"),
		)
	}
	if m.opts.ReadOnly || s.ReadOnly {
		add(t.Key, "READ-ONLY", "read-only: nothing can be ended from here")
	}
	return all
}

// banners are the lines of the warnings: one each if there is room, else short ones on
// one line.
func (m *model) banners() []string {
	all := m.warnings()
	if len(all) == 0 {
		return nil
	}
	t := m.term.theme
	if most := max(m.term.height/6, 1); m.term.height >= besideRows && len(all) <= most {
		var lines []string
		for _, b := range all {
			lines = append(lines, t.Text(b.Paint, "! "+b.long, m.term.width))
		}
		return lines
	}
	var lines []string
	l := t.Line(m.term.width)
	for _, b := range all {
		text := "! " + b.short
		if l.Left < m.term.width {
			if ink.Width(text)+2 > l.Left {
				lines = append(lines, l.Full())
				l = t.Line(m.term.width)
			} else {
				l.Put(t.Dim, "  ")
			}
		}
		l.Put(b.Paint, text)
	}
	return append(lines, l.Full())
}

// bottom is the last lines: what is typed, the result of the last key, or keys. What went
// wrong is never cut off.
func (m *model) bottom() []string {
	t := m.term.theme
	l := t.Line(m.term.width)
	var above []string
	switch {
	case m.prompt != nil:
		l.Put(ink.Paint{}, strings.TrimRight(ansi.Strip(m.prompt.input.View()), " "))
		bad := m.prompt.bad
		if ink.Width(bad)+2 > l.Left {
			above, bad = m.wrapped(t.Bad, "! "+bad), ""
		}
		switch {
		case m.prompt.bad != "":
			l.Put(t.Bad, "  "+bad)
		case m.prompt.input.Value() == "":
			l.Put(t.Dim, "  "+m.prompt.hint)
		}
	case m.message.text != "" && m.message.bad:
		return m.wrapped(t.Bad, "! "+display.Text(m.message.text))
	case m.message.text != "":
		l.Put(t.Strong, display.Text(m.message.text))
	default:
		return []string{m.keysThatFit()}
	}
	return append(above, l.Full())
}

// wrapped is text in as many lines as it takes, up to a quarter of the screen.
func (m *model) wrapped(p ink.Paint, s string) (lines []string) {
	for _, part := range ink.Wrap(s, m.term.width) {
		lines = append(lines, m.term.theme.Text(p, strings.TrimLeft(part, " "), m.term.width))
	}
	return lines[:min(len(lines), max(m.term.height/4, 1))]
}

func (m *model) hints() []key.Binding {
	k := m.keys
	quit := ink.Named(k.Quit, "q", "quit")
	switch {
	case m.focus == onDetails:
		return []key.Binding{k.Escape, ink.Named(k.EndSession, "x", "end"), k.Up, k.Down, k.Pane, quit}
	case m.focus == onEvents:
		return []key.Binding{k.Escape, ink.Named(k.Events, "v", "close"), k.Up, k.Down, k.Pane, quit}
	case m.focus == onHelp:
		return []key.Binding{k.Escape, k.Up, k.Down, k.PageUp, k.PageDown, quit}
	case m.timeline != nil:
		return k.Timeline.Short(k.Escape, k.Quit)
	}
	return k.Short(m.view.SessionsFolded())
}

// keysThatFit is the footer: the first hints, whole ones.
func (m *model) keysThatFit() string {
	for hints := m.hints(); ; hints = hints[:len(hints)-1] {
		s := m.term.footer.ShortHelpView(hints)
		if w := ansi.StringWidth(s); w <= m.term.width {
			return s + strings.Repeat(" ", m.term.width-w)
		}
	}
}
