package tui

import (
	"strconv"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// promptKind is what a line is asked for.
type promptKind uint8

const (
	promptSearch promptKind = iota
	promptFilter
	promptPID
)

var promptNames = [...]string{"search: ", "filter: ", "PID: "}

// prompt is a line that is being typed.
type prompt struct {
	kind   promptKind
	input  textinput.Model
	before *picture.Filter // to go back to
	bad    string          // why what stands there is no filter
}

func (m *model) ask(kind promptKind, text string) tea.Cmd {
	in := textinput.New()
	in.Prompt = promptNames[kind]
	in.SetStyles(textinput.Styles{})
	in.SetVirtualCursor(false)
	in.CharLimit = 256
	in.SetValue(text)
	in.CursorEnd()
	m.prompt = &prompt{kind: kind, input: in, before: m.view.Picture.Filter()}
	return m.prompt.input.Focus()
}

func (p *prompt) press(m *model, msg tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(msg, m.keys.Escape):
		if p.kind == promptFilter {
			m.view.SetFilter(p.before)
		}
		m.prompt = nil
		return nil
	case msg.String() == "enter":
		p.enter(m)
		return nil
	}
	return p.update(m, msg)
}

func (p *prompt) update(m *model, msg tea.Msg) (cmd tea.Cmd) {
	was := p.input.Value()
	p.input, cmd = p.input.Update(msg)
	if p.kind == promptFilter && p.input.Value() != was {
		f, err := picture.ParseFilter(p.input.Value())
		p.bad = ""
		if err != nil {
			p.bad = err.Error()
		} else {
			m.view.SetFilter(f)
		}
	}
	return cmd
}

func (p *prompt) enter(m *model) {
	text := strings.TrimSpace(p.input.Value())
	switch p.kind {
	case promptFilter:
		if p.bad != "" {
			return // it says so
		}
	case promptSearch:
		m.search = text
		if text != "" {
			m.prompt = nil
			m.find(false)
		}
	case promptPID:
		m.goTo(text)
	}
	m.prompt = nil
}

// goTo selects the process that has a PID, wherever it is.
func (m *model) goTo(text string) {
	pid, err := strconv.Atoi(text)
	if err != nil || pid <= 0 {
		m.complain("%s is no PID", display.Text(text))
		return
	}
	r := m.view.Picture.PID(pid)
	switch {
	case r == nil:
		m.complain("no process %d in any session that is shown", pid)
	case m.view.Select(r):
	default:
		m.leaveTimeline()
		m.view.SetMode(picture.Tree)
		m.view.SetRoot(nil)
		if !m.view.Select(r) {
			m.complain("%d is hidden by the filter; Esc clears it", pid)
		}
	}
}
