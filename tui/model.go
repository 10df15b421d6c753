package tui

import (
	"context"
	"fmt"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// focus is what keys go to.
type focus uint8

const (
	onTree focus = iota
	onDetails
	onEvents
	onHelp
)

// model is the whole view. Update does no I/O and waits for nothing.
type model struct {
	ctx  context.Context
	opts Options
	keys ink.KeyMap
	term canvas
	feed *picture.Feed

	link  link
	view  *picture.View
	rates rates
	asked asked

	focus    focus
	scroll   viewport.Model    // details or help, while keys go to them
	timeline *panes.Timeline   // instead of the tree
	events   *panes.EventsPane // below it
	prompt   *prompt
	dialog   *panes.Dialog
	message  message
	opened   bool // the first screen has been laid out
}

type canvas struct {
	width, height int
	theme         *ink.Theme
	footer        help.Model
	rich          bool // it has 256 colours
}

// message is the result of the last key.
type message struct {
	text string
	bad  bool
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, opts: o, keys: ink.NewKeys(), view: picture.NewView(picture.New()),
		scroll: viewport.New()}
	m.feed = picture.NewFeed(func(ctx context.Context) (picture.Watcher, error) { return o.Connect(ctx) })
	if f, err := m.filter(o.Filter); err == nil {
		m.view.SetFilter(f)
	}
	m.view.HideExited(true)
	m.setTheme(o.Theme)
	return m
}

func (m *model) setTheme(name string) {
	t := ink.New(name)
	f := help.New()
	f.Styles = help.Styles{ShortKey: t.KeyStyle}
	f.ShortSeparator = "  "
	f.Ellipsis = t.Dots
	m.term.theme, m.term.footer = t, f
}

// settled is how long after a resize the screen is redrawn. On a larger screen the renderer takes new cells for blank,
// whatever it drew there, and does not erase them; by then it has drawn the frame of the new size.
const settled = 100 * time.Millisecond

// tickMsg comes once a second.
type tickMsg struct{}

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// Init starts the feed, the clock and other sources of messages.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.feed.Run(m.ctx), m.feed.Wait(m.ctx), tick()}
	if m.opts.Theme == "auto" {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	return tea.Batch(cmds...)
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.term.width, m.term.height = msg.Width, msg.Height
		cmd = func() tea.Msg {
			picture.Pause(m.ctx, settled)
			return tea.ClearScreen()
		}
	case tea.ColorProfileMsg:
		m.term.rich = msg.Profile >= colorprofile.ANSI256
	case tea.BackgroundColorMsg:
		// The terminal's own sixteen colours suit any background.
		if m.opts.Theme == "auto" && m.term.rich {
			m.setTheme(map[bool]string{true: "dark", false: "light"}[msg.IsDark()])
		}
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			cmd = m.prompt.update(m, msg)
		}
	case picture.FeedMsg:
		m.fed(msg)
		cmd = m.feed.Wait(m.ctx)
	case tickMsg:
		cmd = tea.Batch(m.second(), tick())
	case panes.EventsMsg:
		if msg.Pane == m.events {
			cmd = m.events.Take()
		}
	case panes.DialogMsg:
		cmd = m.answered(msg)
	case answer:
		msg()
	}
	m.arrange()
	return m, tea.Batch(cmd, m.ask())
}

func (m *model) labels() *panes.Labels {
	return &panes.Labels{
		Theme: *m.term.theme, Picture: m.view.Picture, Now: m.opts.Now(), Boot: m.link.boot,
		Limit: m.term.width, Activity: m.rates.sessions,
	}
}

func (m *model) fed(msg picture.FeedMsg) {
	if c, ok := msg.Connected.(Client); ok {
		m.link.client = c
	}
	m.link.take(msg, m.opts.Now())
	if msg.Batch == nil {
		return
	}
	m.view.Apply(msg.Batch)
	if !m.rates.primed {
		m.rates.sample(m.opts.Now(), m.link.status.Forks, m.view.Picture)
	}
}

func (m *model) second() tea.Cmd {
	if m.link.known && m.link.away == nil {
		m.rates.sample(m.opts.Now(), m.link.status.Forks, m.view.Picture)
	}
	m.view.Resort()
	if m.timeline != nil {
		m.updateTimeline()
	}
	return m.follow()
}

func (m *model) updateTimeline() {
	m.timeline.Update(m.view.Picture, m.opts.Now(), m.labels().Born)
}

func (m *model) say(format string, args ...any) {
	m.message = message{text: fmt.Sprintf(format, args...)}
}

func (m *model) complain(format string, args ...any) {
	m.say(format, args...)
	m.message.bad = true
}
