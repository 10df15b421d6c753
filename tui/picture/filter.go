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
	text   string
	terms  []term
	timed  bool // matches change with time alone
	exited bool // it asks for exited processes
}

type term struct {
	not   bool
	match matcher
}

type matcher func(p *Picture, r *Row) bool

// FilterStates are the values of state:, which may be abbreviated.
var FilterStates = []string{"live", "exited", "zombie", "orphan"}

// The filters that have a key.
const (
	Strays = "state:orphan,zombie"
	Calls  = "call:any"
)

// filterKeys make matchers of values, which are in lower case. Those of a process match
// no session.
var filterKeys = map[string]func(value string) (matcher, error){
	"":        anyOf((*Row).has),
	"session": ofSession,
	"uid":     number(func(r *Row, n int) bool { return r.UID() == n }),
	"port":    number(func(r *Row, n int) bool { return slices.Contains(r.Listens(), n) }),
	"comm":    anyOf(func(r *Row, value string) bool { return r.Kind == ProcessRow && contains(r.Process.Comm, value) }),
	"argv":    anyOf(func(r *Row, value string) bool { return r.Kind == ProcessRow && containsAny(r.Process.Argv, value) }),
	"exe":     anyOf(func(r *Row, value string) bool { return r.Kind == ProcessRow && contains(r.Process.Exe, value) }),
	"state":   state, "age": age, "rss": size, "call": anyOf(called),
}

// FilterHelp names the keys.
const FilterHelp = "comm: argv: exe: port: uid: state: age: rss: call: session:"

// ParseFilter reads terms: KEY:VALUE, or a word that is in the command, the PID or the
// session's name; ! before a term negates it. age and rss take a least value, or < and
// an upper limit, not included. An empty text gives nil. With an error comes the filter of
// the terms before the invalid one.
func ParseFilter(text string) (*Filter, error) {
	f := &Filter{}
	for _, word := range strings.Fields(text) {
		if err := f.add(word); err != nil {
			return f.orNone(), err
		}
	}
	return f.orNone(), nil
}

func (f *Filter) orNone() *Filter {
	if len(f.terms) == 0 {
		return nil
	}
	return f
}

// add adds a term.
func (f *Filter) add(word string) error {
	key := ""
	value, not := strings.CutPrefix(strings.ToLower(word), "!")
	if before, after, ok := strings.Cut(value, ":"); ok {
		key, value = before, after
	}
	read, known := filterKeys[key]
	switch {
	case !known || key == "" && strings.Contains(word, ":"):
		return fmt.Errorf("invalid filter %s: use one of %s with a value", display.Text(word), FilterHelp)
	case value == "":
		return fmt.Errorf("filter %s has no value", display.Text(word))
	}
	match, err := read(value)
	if err != nil {
		return fmt.Errorf("invalid filter %s: must be %w", display.Text(word), err)
	}
	f.text = strings.TrimSpace(f.text + " " + word)
	f.terms = append(f.terms, term{not, match})
	f.timed = f.timed || key == "age"
	f.exited = f.exited || key == "state" && strings.Contains(","+value, ",e") != not
	return nil
}

func anyOf(has func(r *Row, value string) bool) func(string) (matcher, error) {
	return func(value string) (matcher, error) {
		return func(_ *Picture, r *Row) bool { return has(r, value) }, nil
	}
}

func ofSession(value string) (matcher, error) {
	return func(p *Picture, r *Row) bool {
		if r.Kind == ProcessRow {
			r = p.sessions[r.Process.Session]
		}
		return r != nil && named(r, value)
	}, nil
}

func number(is func(r *Row, n int) bool) func(string) (matcher, error) {
	return func(value string) (matcher, error) {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return nil, wanted("a number")
		}
		return func(_ *Picture, r *Row) bool { return is(r, int(n)) }, nil
	}
}

type wanted string

func (w wanted) Error() string { return string(w) }

func state(value string) (matcher, error) {
	var of []string
	for word := range strings.SplitSeq(value, ",") {
		i := slices.IndexFunc(FilterStates, func(s string) bool { return strings.HasPrefix(s, word) })
		if i < 0 {
			return nil, wanted("some of " + strings.Join(FilterStates, ","))
		}
		of = append(of, FilterStates[i])
	}
	return func(_ *Picture, r *Row) bool {
		return r.Kind == ProcessRow && (slices.Contains(of, string(r.Process.State)) || slices.Contains(of, "orphan") && r.Process.Orphan && !r.exited())
	}, nil
}

// bound cuts off the comparison sign: > or none mean at least.
func bound(value string) (text string, below bool) {
	text, below = strings.CutPrefix(value, "<")
	return strings.TrimPrefix(text, ">"), below
}

func age(value string) (matcher, error) {
	text, below := bound(value)
	d, err := time.ParseDuration(text)
	if before, days := strings.CutSuffix(text, "d"); days {
		var n uint64
		n, err = strconv.ParseUint(before, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return nil, wanted("a duration: 90s, 5m, <2h, 3d")
	}
	return func(p *Picture, r *Row) bool { return r.Kind == ProcessRow && (p.Age(r) < d) == below }, nil
}

func size(value string) (matcher, error) {
	text, below := bound(value)
	shift := 0
	for i, unit := range []string{"k", "m", "g", "t"} {
		if before, ok := strings.CutSuffix(text, unit); ok {
			text, shift = before, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(text, 10, 20)
	if err != nil {
		return nil, wanted("a size: 100M, <2G")
	}
	return func(_ *Picture, r *Row) bool {
		return r.Kind == ProcessRow && r.Process.State == api.StateLive && (r.Process.RSSBytes < n<<shift) == below
	}, nil
}

// String is the filter as it was written.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
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

// wants reports whether the row matches all terms. A session never matches a negated one.
func (f *Filter) wants(p *Picture, r *Row) bool {
	return !slices.ContainsFunc(f.terms, func(t term) bool {
		return t.match(p, r) == t.not || t.not && r.Kind == SessionRow
	})
}

// called reports whether a tool call with value in its tool or id started the process.
func called(r *Row, value string) bool {
	return r.Kind == ProcessRow && slices.ContainsFunc(r.Process.Calls, func(c api.Call) bool {
		return value == "any" || contains(c.Tool, value) || contains(c.ID, value)
	})
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
		return contains(pr.Comm, value) || strconv.Itoa(pr.PID) == value || containsAny(pr.Argv, value) ||
			strings.Contains(value, " ") && contains(strings.Join(pr.Argv, " "), value)
	}
	return false
}

func containsAny(all []string, value string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return contains(s, value) })
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
