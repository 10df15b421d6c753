package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Filter is what the reader wants to see. All its terms must match.
type Filter struct {
	text  string
	terms []term
}

type term struct {
	not   bool
	key   string // "": the command, the PID or the session
	value string // lower case
	least uint64 // the least number, bytes or nanoseconds
	below bool   // … less than least instead
}

// FilterStates are the values of state:, which may be abbreviated.
var FilterStates = []string{"live", "exited", "zombie", "orphan"}

// filterKeys are the keys, and what their values mean. A key without a function takes
// any word.
var filterKeys = map[string]func(*term) error{
	"comm": nil, "argv": nil, "exe": nil, "session": nil,
	"uid": number, "port": number, "state": state, "orphan": yesOrNo, "age": age, "rss": size,
}

// FilterHelp names the keys.
const FilterHelp = "comm: argv: exe: port: uid: state: orphan: age: rss: session:"

// ParseFilter reads terms: KEY:VALUE, or a word that is in the command, the PID or the
// session's name; ! before a term negates it. age and rss take a least value, or < and
// an upper limit, not included. An empty text gives nil.
func ParseFilter(text string) (*Filter, error) {
	f := &Filter{text: text}
	for _, word := range strings.Fields(text) {
		t := term{value: strings.ToLower(word)}
		t.value, t.not = strings.CutPrefix(t.value, "!")
		if key, value, ok := strings.Cut(t.value, ":"); ok {
			if _, known := filterKeys[key]; !known {
				return nil, fmt.Errorf("invalid filter %s: use one of %s with a value", display.Text(word), FilterHelp)
			}
			t.key, t.value = key, value
		}
		if t.value == "" {
			return nil, fmt.Errorf("invalid filter %s: it has no value", display.Text(word))
		}
		if read := filterKeys[t.key]; read != nil {
			if err := read(&t); err != nil {
				return nil, fmt.Errorf("invalid filter %s: must be %w", display.Text(word), err)
			}
		}
		f.terms = append(f.terms, t)
	}
	if len(f.terms) == 0 {
		return nil, nil
	}
	return f, nil
}

type wanted string

func (w wanted) Error() string { return string(w) }

func number(t *term) error {
	n, err := strconv.ParseUint(t.value, 10, 31)
	if err != nil {
		return wanted("a number")
	}
	t.least = n
	return nil
}

func state(t *term) error {
	i := slices.IndexFunc(FilterStates, func(s string) bool { return strings.HasPrefix(s, t.value) })
	if i < 0 {
		return wanted("one of " + strings.Join(FilterStates, ", "))
	}
	t.value = FilterStates[i]
	return nil
}

func yesOrNo(t *term) error {
	switch t.value {
	case "yes":
	case "no":
		t.not = !t.not
	default:
		return wanted("yes or no")
	}
	return nil
}

// bound cuts off the comparison sign: > or none mean at least.
func (t *term) bound() string {
	text, below := strings.CutPrefix(t.value, "<")
	t.below = below
	return strings.TrimPrefix(text, ">")
}

func age(t *term) error {
	text, days := strings.CutSuffix(t.bound(), "d")
	if n, err := strconv.ParseUint(text, 10, 16); days && err == nil {
		t.least = n * uint64(24*time.Hour)
		return nil
	}
	d, err := time.ParseDuration(t.bound())
	if err != nil || d < 0 {
		return wanted("a duration: 90s, 5m, <2h, 3d")
	}
	t.least = uint64(d)
	return nil
}

func size(t *term) error {
	text, shift := t.bound(), 0
	for i, unit := range []string{"k", "m", "g", "t"} {
		if before, ok := strings.CutSuffix(text, unit); ok {
			text, shift = before, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(text, 10, 20)
	if err != nil {
		return wanted("a size: 100M, <2G")
	}
	t.least = n << shift
	return nil
}

// String is the filter as it was written.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// timed reports whether matches change with time alone.
func (f *Filter) timed() bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return t.key == "age" })
}

// wantsExited reports whether the filter asks for exited processes.
func (f *Filter) wantsExited() bool {
	return f != nil && slices.ContainsFunc(f.terms, func(t term) bool {
		return t.key == "state" && (t.value == string(api.StateExited)) != t.not
	})
}

// Filter is the filter in force, or nil.
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
	switch match := p.filter != nil && p.filter.wants(p, r); {
	case match == r.match:
	case match:
		r.match = true
		r.add(0, 0, 1)
	default:
		r.match = false
		r.add(0, 0, -1)
	}
}

// wants reports whether the row matches all terms. A session matches only by its id or
// name, its owner or its ports.
func (f *Filter) wants(p *Picture, r *Row) bool {
	for i := range f.terms {
		t := &f.terms[i]
		if t.match(p, r) == t.not {
			return false
		}
		if r.Kind == SessionRow && (t.not || !slices.Contains([]string{"", "uid", "session", "port"}, t.key)) {
			return false
		}
	}
	return true
}

func (t *term) match(p *Picture, r *Row) bool {
	switch t.key {
	case "":
		return r.has(t.value)
	case "uid":
		return r.UID() == int(t.least)
	case "port":
		return slices.Contains(r.Listens(), int(t.least))
	case "session":
		s := r
		if r.Kind == ProcessRow {
			s = p.sessions[r.Process.Session]
		}
		return s != nil && named(s, t.value)
	}
	if r.Kind != ProcessRow {
		return false
	}
	pr := r.Process
	switch t.key {
	case "comm":
		return contains(pr.Comm, t.value)
	case "argv":
		return slices.ContainsFunc(pr.Argv, func(a string) bool { return contains(a, t.value) })
	case "exe":
		return contains(pr.Exe, t.value)
	case "age":
		return (uint64(p.Age(r)) < t.least) == t.below
	case "rss":
		return pr.State == api.StateLive && (pr.RSSBytes < t.least) == t.below
	case "orphan":
		return pr.Orphan && pr.State != api.StateExited
	}
	if t.value == "orphan" {
		return pr.Orphan && pr.State != api.StateExited
	}
	return pr.State == api.ProcessState(t.value)
}

func named(s *Row, value string) bool {
	return strings.HasPrefix(s.Session.ID, value) || contains(s.Session.Name, value)
}

// has reports whether value, in lower case, is in the text of the row.
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

// contains reports whether s contains value, which is in lower case, ignoring case.
func contains(s, value string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return strings.Contains(strings.ToLower(s), value)
		}
	}
	return strings.Contains(s, value)
}
