package picture

import (
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Filter is what the reader wants to see: the selected sessions, and of a word that names processes only these.
type Filter struct {
	Text      string         // what it wants
	Selection *api.Selection // in the words of ls; nil: what wants says
	wants     func(r *Row) bool
}

// The filters that have a key.
var (
	Strays = &Filter{Text: "orphans and zombies", wants: func(r *Row) bool {
		return r.Kind == ProcessRow && (r.Process.State == api.StateZombie || r.Process.Orphan && !r.exited())
	}}
	Calls = &Filter{Text: "tool calls", wants: func(r *Row) bool { return r.Kind == ProcessRow && len(r.Process.Calls) > 0 }}
)

// WithText wants the rows with a text in their name or command, whatever its case.
func WithText(text string) *Filter {
	value := strings.ToLower(text)
	return &Filter{Text: text, wants: func(r *Row) bool { return r.has(value) }}
}

func (f *Filter) Typed() string {
	if f == nil || f.Selection == nil {
		return ""
	}
	return f.Text
}

func (p *Picture) Filter() *Filter { return p.filter }

// SetFilter shows only the rows that f wants, and the rows above them.
func (p *Picture) SetFilter(f *Filter) {
	p.filter = f
	for _, r := range p.sessions {
		p.rematch(r)
	}
	for _, r := range p.processes {
		p.rematch(r)
	}
}

func (p *Picture) rematch(r *Row) {
	if match := p.filter != nil && p.wanted(r); match != r.match {
		r.match = match
		r.add(0, 0, map[bool]int32{true: 1, false: -1}[match])
	}
}

// wanted reports whether the filter wants a row: of a process for its session, or for itself.
func (p *Picture) wanted(r *Row) bool {
	if p.filter.wants != nil {
		return p.filter.wants(r)
	}
	in := p.sessions[r.SessionID()]
	if in == nil || !p.filter.Selection.Allows(in.Session) {
		return false
	}
	words := p.filter.Selection.Words
	return len(words) == 0 || slices.ContainsFunc(words, func(word string) bool {
		return api.Means(word, in.Session) || len(word) >= api.ShortestID && strings.HasPrefix(in.Session.ID, word) ||
			r.Kind == ProcessRow && r.named(word)
	})
}

// named reports whether a word names a process, by PID, PID@START or :PORT.
func (r *Row) named(word string) bool {
	switch {
	case word[0] == ':':
		_, port, err := api.ParsePort(word)
		return err == nil && slices.Contains(r.Ports, port)
	case word[0] < '0' || word[0] > '9':
		return false
	}
	ref, err := api.ParseRef(word)
	return err == nil && ref.PID == r.Process.PID && (ref.StartNS == 0 || ref == r.Process.Ref)
}

// has reports whether value, in lower case, is in the text of the row.
func (r *Row) has(value string) bool {
	if r.Kind == SessionRow {
		return strings.HasPrefix(r.Session.ID, value) || contains(r.Session.Name, value)
	}
	pr := r.Process
	return contains(pr.Comm, value) || strconv.Itoa(pr.PID) == value ||
		slices.ContainsFunc(pr.Argv, func(s string) bool { return contains(s, value) }) ||
		strings.Contains(value, " ") && contains(strings.Join(pr.Argv, " "), value)
}

// contains reports whether s contains value, which is in lower case, ignoring case.
func contains(s, value string) bool { return strings.Contains(strings.ToLower(s), value) }
