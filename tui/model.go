package tui

import (
	"context"
	"fmt"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// focus is what keys go to.
type focus uint8

const (
	onTree focus = iota
	onDetails
	onHelp
)

// model is the whole view. Update does no I/O and waits for nothing: what needs
// the daemon is a command, and its answer a message.
type model struct {
	ctx    context.Context
	client Client
	feed   *feed
	opts   Options
	keys   KeyMap
	theme  theme
	footer help.Model

	width, height int
	focus         focus
	scroll        viewport.Model // details or help, while keys go to them

	view     *picture.View
	status   api.WatchStatus
	known    bool      // a picture has come
	boot     time.Time // when the clock of the pictures was 0
	recorded time.Time // the last picture's time, of a recording
	rates    rates
	lanes    bool         // the timeline instead of commands
	before   *picture.Row // the root of the view before the timeline
	paused   bool         // what comes is held
	held     *picture.Batch
	fresh    int // processes in it that the picture has not

	away  error // the daemon's stream is broken
	since time.Time
	over  string // the stream has ended for good
	done  bool

	search  string
	prompt  *prompt
	dialog  *dialog
	why     why
	message string // what came of the last key
	isBad   bool
}

func newModel(ctx context.Context, c Client, o Options) *model {
	m := &model{
		ctx: ctx, client: c, feed: newFeed(c, o.Query), opts: o, keys: NewKeyMap(), theme: newTheme(o.Theme, o.ASCII),
		footer: help.New(), view: picture.NewView(picture.New()), scroll: viewport.New(),
	}
	m.footer.Styles = help.Styles{ShortKey: m.theme.keyStyle}
	m.footer.ShortSeparator = " " + m.theme.sep + " "
	m.footer.Ellipsis = m.theme.dots
	return m
}

// tickMsg comes once a second.
type tickMsg struct{}

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// Init starts what the view lives on.
func (m *model) Init() tea.Cmd {
	return tea.Batch(m.feed.run(m.ctx), m.feed.wait(m.ctx), tick())
}

// Update takes one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			cmd = m.prompt.update(m, msg)
		}
	case feedMsg:
		m.fed(msg)
		cmd = m.feed.wait(m.ctx)
	case tickMsg:
		m.second()
		cmd = tick()
	case whyMsg:
		m.explained(msg)
	case planMsg:
		m.planned(msg)
	case reportMsg:
		cmd = m.reported(msg)
	case killedMsg:
		m.killed(msg)
	}
	m.arrange()
	return m, tea.Batch(cmd, m.askWhy())
}

func (m *model) now() time.Time { return m.opts.Now() }

// present is the time of the picture: of a recording it is long ago.
func (m *model) present() time.Time {
	if m.opts.Source == "" || m.recorded.IsZero() {
		return m.now()
	}
	return m.recorded
}

// dated finds out when the picture's clock was 0: now tells for a daemon's; a
// recording's processes tell when they started by both clocks.
func (m *model) dated(b *picture.Batch) {
	switch {
	case b.TimeNS == 0:
		return
	case m.opts.Source == "":
		m.boot = m.now().Add(-time.Duration(b.TimeNS))
		return
	}
	for _, p := range b.Upsert {
		if m.boot.IsZero() && p.Started != nil {
			m.boot = p.Started.Add(-time.Duration(p.StartNS))
		}
	}
	if !m.boot.IsZero() {
		m.recorded = m.boot.Add(time.Duration(b.TimeNS))
	}
}

// fed takes what the feed brought.
func (m *model) fed(msg feedMsg) {
	if b := msg.batch; b != nil {
		m.known = true
		if b.Status != nil {
			m.status = *b.Status
		}
		m.dated(b)
		if !m.rates.primed {
			m.rates.sample(m.now(), &m.status)
		}
		m.take(b)
	}
	if msg.away != nil && m.away == nil {
		m.since = m.now()
	}
	m.away = msg.away
	if msg.over != "" {
		m.over, m.done = msg.over, true
	}
}

// take puts a batch into the picture, or aside while painting is paused.
func (m *model) take(b *picture.Batch) {
	switch {
	case !m.paused:
		m.view.Apply(b)
		return
	case m.held == nil:
		m.held = b
	default:
		m.held.Merge(b)
	}
	m.fresh = m.view.Picture.New(m.held)
}

func (m *model) pause() {
	m.paused = !m.paused
	if !m.paused && m.held != nil {
		m.view.Apply(m.held)
		m.held, m.fresh = nil, 0
	}
}

// second does what is done once a second.
func (m *model) second() {
	if m.known && m.away == nil {
		m.rates.sample(m.now(), &m.status)
	}
	if !m.paused {
		m.view.Resort()
	}
}

func (m *model) say(format string, args ...any) {
	m.message, m.isBad = fmt.Sprintf(format, args...), false
}

func (m *model) complain(format string, args ...any) {
	m.say(format, args...)
	m.isBad = true
}

// press gives a key to what it is meant for.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	if key.Matches(msg, m.keys.Suspend) {
		return tea.Suspend
	}
	if msg.String() == "ctrl+c" {
		return tea.Quit
	}
	switch {
	case m.tooSmall():
		return nil
	case m.dialog != nil:
		return m.dialog.press(m, msg)
	case m.prompt != nil:
		return m.prompt.press(m, msg)
	}
	m.message = ""
	switch {
	case key.Matches(msg, m.keys.Quit):
		return tea.Quit
	case m.focus != onTree:
		return m.read(msg)
	}
	return m.act(msg)
}

// read is keys while details or help have them.
func (m *model) read(msg tea.KeyPressMsg) tea.Cmd {
	k := m.keys
	switch {
	case key.Matches(msg, k.Escape, k.Left), m.focus == onDetails && key.Matches(msg, k.Details), m.focus == onHelp && key.Matches(msg, k.Help):
		m.focus = onTree
	case key.Matches(msg, k.Up):
		m.scroll.ScrollUp(1)
	case key.Matches(msg, k.Down):
		m.scroll.ScrollDown(1)
	case key.Matches(msg, k.PageUp):
		m.scroll.PageUp()
	case key.Matches(msg, k.PageDown):
		m.scroll.PageDown()
	case key.Matches(msg, k.Home):
		m.scroll.GotoTop()
	case key.Matches(msg, k.End):
		m.scroll.GotoBottom()
	case key.Matches(msg, k.Help):
		m.open(onHelp)
	case key.Matches(msg, k.EndSession, k.Kill):
		m.focus = onTree
		return m.act(msg)
	}
	return nil
}

func (m *model) open(f focus) {
	m.focus = f
	m.scroll.GotoTop()
}
