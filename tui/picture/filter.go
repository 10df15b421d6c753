package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Filter is what the reader wants to see. All its terms must hold.
type Filter struct {
	text  string
	terms []term
}

type term struct {
	not   bool
	key   string // "": the command, the PID or the session
	value string // lower case
	uid   int
}

var filterKeys = []string{"comm", "uid", "state", "session"}

// FilterStates are what state: takes, each by its first letters too.
var FilterStates = []string{"live", "exited", "zombie", "orphan"}

// ParseFilter reads terms: comm:, uid:, state:, session:, or a word that is in
// the command, the PID or the session's name; ! before a term turns it round.
// An empty text is no filter, nil.
func ParseFilter(text string) (*Filter, error) {
	f := &Filter{text: text}
	for _, word := range strings.Fields(text) {
		t := term{value: strings.ToLower(word)}
		t.value, t.not = strings.CutPrefix(t.value, "!")
		if key, value, ok := strings.Cut(t.value, ":"); ok {
			if !slices.Contains(filterKeys, key) {
				return nil, fmt.Errorf("filter %s: want comm:, uid:, state: or session: and a value", display.Text(word))
			}
			t.key, t.value = key, value
		}
		if t.value == "" {
			return nil, fmt.Errorf("filter %s: nothing to look for", display.Text(word))
		}
		switch t.key {
		case "uid":
			uid, err := strconv.Atoi(t.value)
			if err != nil || uid < 0 {
				return nil, fmt.Errorf("filter %s: want a number", display.Text(word))
			}
			t.uid = uid
		case "state":
			i := slices.IndexFunc(FilterStates, func(s string) bool { return strings.HasPrefix(s, t.value) })
			if i < 0 {
				return nil, fmt.Errorf("filter %s: want one of %s", display.Text(word), strings.Join(FilterStates, ", "))
			}
			t.value = FilterStates[i]
		}
		f.terms = append(f.terms, t)
	}
	if len(f.terms) == 0 {
		return nil, nil
	}
	return f, nil
}

// String is the filter as it was written.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// Filter is the filter in force, nil if there is none.
func (p *Picture) Filter() *Filter { return p.filter }

// SetFilter shows only what f wants, and what is above that.
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
	switch match := p.filter != nil && p.filter.wants(p, r); {
	case match == r.match:
	case match:
		r.match = true
		r.add(0, 1)
	default:
		r.match = false
		r.add(0, -1)
	}
}

// wants tells whether the row is what all terms describe. A session is only
// found by its id or name, or by who owns it.
func (f *Filter) wants(p *Picture, r *Row) bool {
	for _, t := range f.terms {
		if t.match(p, r) == t.not {
			return false
		}
		if r.Kind == SessionRow && (t.key == "comm" || t.key == "state" || t.not) {
			return false
		}
	}
	return true
}

func (t *term) match(p *Picture, r *Row) bool {
	switch t.key {
	case "uid":
		if r.Kind == SessionRow {
			return r.Session.UID == t.uid
		}
		return r.Process.UID != nil && *r.Process.UID == t.uid
	case "session":
		s := r
		if r.Kind == ProcessRow {
			s = p.sessions[r.Process.Session]
		}
		return s != nil && named(s, t.value)
	case "comm":
		return r.Kind == ProcessRow && contains(r.Process.Comm, t.value)
	case "state":
		if r.Kind != ProcessRow {
			return false
		}
		if t.value == "orphan" {
			return r.Process.Orphan && r.Process.State != api.StateExited
		}
		return r.Process.State == api.ProcessState(t.value)
	}
	return r.has(t.value)
}

func named(s *Row, value string) bool {
	return strings.HasPrefix(s.Session.ID, value) || contains(s.Session.Name, value)
}

// has tells whether value, in lower case, is in what the row shows.
func (r *Row) has(value string) bool {
	switch r.Kind {
	case SessionRow:
		return named(r, value)
	case ProcessRow:
		pr := r.Process
		return contains(pr.Comm, value) || strconv.Itoa(pr.PID) == value ||
			slices.ContainsFunc(pr.Argv, func(a string) bool { return contains(a, value) }) ||
			strings.Contains(value, " ") && contains(strings.Join(pr.Argv, " "), value)
	}
	return false
}

// contains looks for value, in lower case, without regard to case.
func contains(s, value string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return strings.Contains(strings.ToLower(s), value)
		}
	}
	return strings.Contains(s, value)
}
