package tui

import (
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// prompt is a line while it is typed: a filter, or what is searched for. Its effect is shown
// during typing; Esc undoes it.
type prompt struct {
	input   textinput.Model
	filters bool
	filter  *picture.Filter // before
	search  search          // before
	bad     string          // why the text is invalid
}

// search is the current search.
type search struct {
	text    string
	from    *picture.Row // where the reader was
	at, all int          // the number of the selected match, and how many there are
}

// word is what is highlighted.
func (s *search) word() string { return strings.ToLower(s.text) }

// count counts the matches.
func (s *search) count(v *picture.View) {
	if s.text != "" {
		s.at, s.all = v.Matches(s.word())
	}
}

// askFilter lets the reader type a filter, beginning with the one in force.
func (m *model) askFilter() tea.Cmd {
	return m.prompted("filter: ", m.view.Picture.Filter().Typed(), true)
}

// askSearch lets the reader type what is searched for, from where they are.
func (m *model) askSearch() tea.Cmd {
	cmd := m.prompted("search: ", "", false)
	m.search = search{from: m.view.Selected()}
	return cmd
}

func (m *model) prompted(name, text string, filters bool) tea.Cmd {
	in := textinput.New()
	in.Prompt = name
	in.SetStyles(textinput.Styles{})
	in.SetVirtualCursor(false)
	in.CharLimit = 256
	in.SetValue(text)
	in.CursorEnd()
	m.prompt = &prompt{input: in, filters: filters, filter: m.view.Picture.Filter(), search: m.search}
	return m.prompt.input.Focus()
}

func (p *prompt) press(m *model, msg tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(msg, m.keys.Escape):
		p.takeBack(m)
		return nil
	case msg.String() == "enter":
		p.enter(m)
		return nil
	}
	return p.update(m, msg)
}

func (p *prompt) takeBack(m *model) {
	m.prompt = nil
	if p.filters {
		m.view.SetFilter(p.filter)
		return
	}
	if from := m.search.from; from != nil && !from.Gone() {
		m.view.Select(from)
	}
	m.search = p.search
}

func (p *prompt) update(m *model, msg tea.Msg) (cmd tea.Cmd) {
	was := p.input.Value()
	p.input, cmd = p.input.Update(msg)
	now := p.input.Value()
	if now == was {
		return cmd
	}
	p.bad = ""
	if p.filters {
		if f, err := m.filter(now); err != nil {
			p.bad = display.Error(err)
		} else {
			m.view.SetFilter(f)
		}
		return cmd
	}
	m.search.text = strings.TrimSpace(now)
	if !m.view.Seek(m.search.word(), m.search.from) && m.search.text != "" {
		p.bad = "not found"
	}
	m.search.count(m.view)
	return cmd
}

func (p *prompt) enter(m *model) {
	if p.bad != "" && p.filters {
		return // it shows the error
	}
	m.prompt = nil
	if p.bad != "" {
		m.complain("%s: not found", display.Text(m.search.text))
		m.search = search{}
	}
}

// filter is the filter that a text says; nil: none.
func (m *model) filter(text string) (*picture.Filter, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil
	}
	sel, err := m.opts.Select(words)
	return &picture.Filter{Text: text, Selection: sel}, err
}

// show selects a row, and changes settings that hide it.
func (m *model) show(r *picture.Row) {
	v := m.view
	if v.Select(r) {
		return
	}
	v.SetRoot(nil)
	if !v.Select(r) && v.HidesExited() {
		v.HideExited(false)
		m.say("exited processes are shown now")
	}
	if !v.Select(r) {
		m.complain("%s is hidden by the filter; Esc clears it", m.labels().Row(r))
	}
}

// find goes to the next match.
func (m *model) find(back bool) {
	switch {
	case m.search.text == "":
		m.complain("nothing was searched for yet: /")
	case !m.view.Find(m.search.word(), back):
		m.complain("%s: not found", display.Text(m.search.text))
	}
	m.search.count(m.view)
}
