package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// part is a piece of the status line: as long as there is room for.
type part struct {
	paint
	long, middle, short string
}

// statusLine says what the daemon can do, and what the host does.
func (m *model) statusLine() string {
	s, t := &m.status, m.theme
	parts := []part{m.title()}
	if m.known {
		level := part{long: fmt.Sprintf("level %d %s", s.Level, display.Text(s.Mode)), short: fmt.Sprintf("L%d %s", s.Level, display.Text(s.Mode))}
		if s.Level == 0 { // of a recording
			level.long, level.short = display.Text(s.Mode), display.Text(s.Mode)
		}
		level.middle = level.short
		forks := fmt.Sprintf("%.0f forks/s", m.rates.now())
		live := fmt.Sprintf("%d live", s.Live)
		lost := part{long: fmt.Sprintf("lost %d", s.Lost), short: fmt.Sprintf("lost %d", s.Lost), paint: t.dim}
		if s.Lost > 0 {
			lost.paint = t.warn
		}
		lost.middle = lost.long
		sessions := count(m.view.Picture.Sessions(), "session", "sessions")
		parts = append(parts, level,
			part{long: sessions, middle: sessions},
			part{long: live + " " + spark(t.spark, m.rates.live, 16), middle: live + " " + spark(t.spark, m.rates.live, 8), short: live, paint: t.live},
			part{long: forks + " " + spark(t.spark, m.rates.forks, 16), middle: forks, short: fmt.Sprintf("%.0f/s", m.rates.now())},
			lost, m.selfCheck())
	}
	for _, size := range []func(part) string{
		func(p part) string { return p.long }, func(p part) string { return p.middle }, func(p part) string { return p.short },
	} {
		total := -2
		for _, p := range parts {
			if s := size(p); s != "" {
				total += width(s) + 2
			}
		}
		if total <= m.width {
			return m.joined(parts, size)
		}
	}
	return m.joined(parts, func(p part) string { return p.short })
}

func (m *model) joined(parts []part, size func(part) string) string {
	l := m.line(m.width)
	for _, p := range parts {
		s := size(p)
		if s == "" {
			continue
		}
		if l.left < m.width {
			l.put(paint{}, "  ")
		}
		l.put(p.paint, s)
	}
	return l.full()
}

// title says what is shown, and how.
func (m *model) title() part {
	what := "lineage"
	if m.opts.Source != "" {
		what += " " + display.Text(m.opts.Source)
	}
	v := m.view
	var how []string
	switch v.Mode() {
	case picture.Flat:
		order, locked := v.Sort()
		how = append(how, "list by "+order.String())
		if locked {
			how = append(how, "locked")
		}
	case picture.Orphans:
		how = append(how, "orphans")
	}
	if m.lanes {
		how = append(how, "timeline")
	}
	if root := v.Root(); root != nil && !m.lanes {
		how = append(how, "from "+m.rowName(root))
	}
	if f := v.Picture.Filter(); f != nil {
		how = append(how, "filter "+display.Text(f.String()))
	}
	switch v.Following() {
	case picture.FollowRow:
		how = append(how, "follows the row")
	case picture.FollowNewest:
		how = append(how, "follows the newest")
	}
	p := part{long: what, middle: what, paint: m.theme.strong}
	if len(how) > 0 {
		p.short = m.fit(strings.Join(how, ", "), max(m.width/2, 12))
		p.long += ": " + p.short
		p.middle = p.long
	}
	return p
}

func (m *model) selfCheck() part {
	c := m.status.SelfCheck
	switch {
	case m.opts.Source != "":
		return part{}
	case c == nil:
		return part{long: "no self-check yet", middle: "check -", paint: m.theme.dim}
	case !c.OK:
		return part{long: "self-check FAILED", middle: "check FAILED", short: "check FAILED", paint: m.theme.bad}
	}
	long := "self-check ok"
	if c.At != nil {
		long += " " + display.Age(m.present().Sub(*c.At)) + " ago"
	}
	return part{long: long, middle: "check ok", paint: m.theme.dim}
}

// banner is something that stays on the screen as long as it is so.
type banner struct {
	paint
	long, short string
}

// warnings are the banners, the worst first.
func (m *model) warnings() (all []banner) {
	s, t := &m.status, m.theme
	add := func(p paint, short, format string, args ...any) {
		all = append(all, banner{p, display.Text(fmt.Sprintf(format, args...)), short})
	}
	switch {
	case m.away != nil:
		add(t.bad, "DAEMON AWAY", "the daemon is away for %s: %v; trying again, what is shown is old", display.Age(m.now().Sub(m.since).Round(time.Second)), m.away)
	case m.done:
		add(t.warn, "OVER", "%s", ending(m.over))
	case !m.known:
		add(t.warn, "WAITING", "waiting for the daemon's first picture")
	}
	if d := slices.Concat(s.Degraded, m.view.Picture.Degraded()); len(d) > 0 {
		add(t.bad, "DEGRADED", "degraded: %s", strings.Join(d[:min(len(d), 16)], "; "))
	}
	if c := s.SelfCheck; c != nil && !c.OK {
		add(t.bad, "CHECK FAILED", "the self-check failed: %s", cmp.Or(c.Why, "the daemon does not say why"))
	}
	if s.Breaker.Open {
		add(t.bad, "BREAKER OPEN", "the circuit breaker is open: the policy ends nothing until \"lineage policy resume\"")
	}
	if s.Lost > 0 {
		add(t.warn, fmt.Sprintf("LOST %d", s.Lost), "%s lost: the history has gaps, whose a process is stays true", count(int(s.Lost), "event", "events"))
	}
	if m.paused {
		add(t.warn, fmt.Sprintf("PAUSED, %d new", m.fresh), "paused, %d new; p goes on", m.fresh)
	}
	switch {
	case m.opts.Source != "":
		add(t.key, "READ-ONLY", "read-only: the recording %s", m.opts.Source)
	case m.opts.ReadOnly || s.ReadOnly:
		add(t.key, "READ-ONLY", "read-only: nothing can be ended from here")
	}
	if s.Mode == "observe" && m.opts.Source == "" {
		add(t.key, "OBSERVE", "observe mode: the policy only reports what it would end; x and X do end")
	}
	return all
}

func ending(reason string) string {
	switch reason {
	case "session_over":
		return "the session is over; this is the last picture of it"
	case "":
		return "the stream is over; this is the last picture"
	}
	return "the stream is over (" + reason + "); this is the last picture"
}

// banners are the lines of the warnings: one each where there is room, else
// short ones together.
func (m *model) banners() []string {
	all := m.warnings()
	if len(all) == 0 {
		return nil
	}
	t := m.theme
	if most := max(m.height/6, 1); m.height >= besideRows && len(all) <= most {
		var lines []string
		for _, b := range all {
			l := m.line(m.width)
			l.put(b.paint, "! "+b.long)
			lines = append(lines, l.full())
		}
		return lines
	}
	var lines []string
	l := m.line(m.width)
	for _, b := range all {
		text := "! " + b.short
		if l.left < m.width {
			if width(text)+2 > l.left {
				lines = append(lines, l.full())
				l = m.line(m.width)
			} else {
				l.put(t.dim, "  ")
			}
		}
		l.put(b.paint, text)
	}
	return append(lines, l.full())
}

// bottom is the last line: what is typed, what came of the last key, or keys.
func (m *model) bottom() string {
	l := m.line(m.width)
	switch {
	case m.prompt != nil:
		l.put(paint{}, strings.TrimRight(ansi.Strip(m.prompt.input.View()), " "))
		if m.prompt.bad != "" {
			l.put(m.theme.bad, "  "+m.prompt.bad)
		}
	case m.message != "" && m.isBad:
		l.put(m.theme.bad, "! "+display.Text(m.message))
	case m.message != "":
		l.put(m.theme.strong, display.Text(m.message))
	default:
		return m.keysThatFit()
	}
	return l.full()
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
