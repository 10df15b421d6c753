package tui

import (
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// prompt is a filter while it is typed. Its effect is shown during typing; Esc undoes it.
type prompt struct {
	input textinput.Model
	hint  string // while nothing is typed
	read  func(text string) (*picture.Filter, error)
	bad   string // why the text is invalid

	filter *picture.Filter // before
	from   *picture.Row    // that was selected
}

// askFilter lets the reader type a selection, beginning with the one in force.
func (m *model) askFilter() tea.Cmd {
	return m.prompted("filter: ", m.view.Picture.Filter().Typed(),
		"as in ls: web ci-* :8080 4130 --state paused --idle 1h", m.filter)
}

func (m *model) askText() tea.Cmd {
	return m.prompted("search: ", "", "", func(text string) (*picture.Filter, error) {
		if text = strings.TrimSpace(text); text == "" {
			return nil, nil
		}
		return picture.WithText(text), nil
	})
}

func (m *model) prompted(name, text, hint string, read func(string) (*picture.Filter, error)) tea.Cmd {
	in := textinput.New()
	in.Prompt = name
	in.SetStyles(textinput.Styles{})
	in.SetVirtualCursor(false)
	in.CharLimit = 256
	in.SetValue(text)
	in.CursorEnd()
	m.prompt = &prompt{input: in, hint: hint, read: read,
		filter: m.view.Picture.Filter(), from: m.view.Selected()}
	return m.prompt.input.Focus()
}

func (p *prompt) press(m *model, msg tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(msg, m.keys.Escape):
		m.prompt = nil
		m.view.SetFilter(p.filter)
		m.view.Select(p.from)
	case msg.String() != "enter":
		return p.update(m, msg)
	case p.bad == "":
		m.prompt = nil
	}
	return nil
}

func (p *prompt) update(m *model, msg tea.Msg) (cmd tea.Cmd) {
	was := p.input.Value()
	p.input, cmd = p.input.Update(msg)
	if p.input.Value() == was {
		return cmd
	}
	p.bad = ""
	if f, err := p.read(p.input.Value()); err != nil {
		p.bad = display.Error(err)
	} else {
		m.view.SetFilter(f)
	}
	return cmd
}

// filter is the filter that a selection says; nil: none.
func (m *model) filter(text string) (*picture.Filter, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil
	}
	sel, err := m.opts.Select(words)
	return &picture.Filter{Text: text, Selection: sel}, err
}

func (m *model) show(r *picture.Row) {
	v := m.view
	if v.Select(r) {
		return
	}
	if v.HidesExited() {
		v.HideExited(false)
		m.say("exited processes are shown now")
	}
	if !v.Select(r) {
		m.complain("%s is hidden by the filter; Esc clears it", m.labels().Row(r))
	}
}
