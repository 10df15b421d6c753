package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"
)

// Bounds of a selection.
const (
	MaxMatched = 1024 // sessions that one pattern names
	ShortestID = 3    // characters of an id that name a session, if no other id begins with them
	shortID    = 12   // digits of a container's id that name it
	suggested  = 60   // bytes of names in an error
)

// SelectionStates are the states that a selection can want. A paused, a leftover and a kept session is active, too.
var SelectionStates = []string{"active", "paused", "leftover", "kept", "ending", "condemned", "ended"}

// Selection says which sessions are meant: those that one of its words names, or all if it has no word, and of
// them those that also have what the other fields say. The zero value selects none: All says all.
type Selection struct {
	All       bool          // every session; alone
	Words     []string      // ids and their beginnings, names, patterns of names, :PORT, PID, PID@START
	State     string        // one of [SelectionStates]
	UID       *int          // of the creator
	Local     bool          // UID was looked up on this host, and may be somebody else's on others
	Container string        // of the root: its name, or its id, at least what docker prints of it
	Pod       string        // of the root: its name, or NAMESPACE/NAME
	Idle      time.Duration // at least so long
	Ended     bool          // ended ones, too, without words
	Whole     bool          // the beginning of an id names none: for what ends sessions
}

// Choice is a session that is selected, or a word that names none.
type Choice struct {
	Session *Session
	Process *Ref   // by which one word names the session
	Within  string // a word of its processes, if nothing else names the session
	Named   bool   // by a word that is of one session, and by nothing else
	Err     error  // why it names none
}

// Found is what a selection has selected.
type Found struct {
	Choices []Choice  // each session once
	List    *Sessions // of which they are; without any if words alone said it
}

// IDs are the ids of the sessions.
func (f *Found) IDs() (ids []string) {
	for _, c := range f.Choices {
		if c.Err == nil {
			ids = append(ids, c.Session.ID)
		}
	}
	return ids
}

// Resolve is Find for what does all or nothing: a word that names none is an error.
func (s *Selection) Resolve(ctx context.Context, c Client) (*Found, error) {
	found, err := s.Find(ctx, c)
	for i := 0; err == nil && i < len(found.Choices); i++ {
		err = found.Choices[i].Err
	}
	return found, err
}

// Filters reports whether it says more than words and all.
func (s *Selection) Filters() bool {
	return s.State != "" || s.UID != nil || s.Container != "" || s.Pod != "" || s.Idle > 0
}

// Given reports whether it selects anything.
func (s *Selection) Given() bool { return s.All || len(s.Words) > 0 || s.Filters() }

// OrAll is what a command selects that only reads: all, if nothing is said.
func (s Selection) OrAll() *Selection {
	s.All = s.All || !s.Given()
	return &s
}

// Plain reports whether it has only words that are ids or names, and no PIDs.
func (s *Selection) Plain() bool {
	return len(s.Words) > 0 && !s.Filters() && !slices.ContainsFunc(s.Words, func(word string) bool {
		_, pid := ParseRef(word)
		return !IsSessionWord(word) || pid == nil
	})
}

// One reports whether it is one word, and not a pattern.
func (s *Selection) One() bool { return len(s.Words) == 1 && !isPattern(s.Words[0]) && !s.Filters() }

// Check returns what is wrong with it.
func (s *Selection) Check() error {
	if s.All && (len(s.Words) > 0 || s.Filters()) {
		return errors.New("--all selects every session; name none, and select by nothing else")
	}
	for _, word := range s.Words {
		if _, err := path.Match(word, ""); err != nil {
			return fmt.Errorf("invalid pattern %q: must be a name with *, ? and [a-z]", word)
		}
		if _, _, err := ParsePort(word); err != nil && word[:min(len(word), 1)] == ":" {
			return err
		}
	}
	return nil
}

func isPattern(word string) bool { return strings.ContainsAny(word, `*?[\`) }

// ParsePort reads :PORT, :PORT/tcp or :PORT/udp. PORT may be a name of services(5), such as http.
func ParsePort(word string) (proto string, port int, err error) {
	number, proto, slash := strings.Cut(strings.TrimPrefix(word, ":"), "/")
	n, err := net.LookupPort(cmp.Or(proto, "tcp"), number)
	if err != nil || n == 0 || slash && proto != "tcp" && proto != "udp" {
		return "", 0, NewError(CodeBadRequest,
			fmt.Sprintf("invalid :PORT %q: must be :PORT, :PORT/tcp or :PORT/udp, PORT 1 to 65535 or a service",
				word), "")
	}
	return cmp.Or(proto, "tcp"), n, nil
}

// Rests reports whether a session is in the wanted state, and idle for as long as is wanted.
func (s *Selection) Rests(x *Session) bool {
	return (s.State == "" || x.In(s.State)) && x.IdleSeconds >= s.Idle.Seconds()
}

// Allows reports whether a session has what the fields other than the words say.
func (s *Selection) Allows(x *Session) bool {
	in := cmp.Or(x.Container, &Container{})
	return s.Rests(x) && (s.UID == nil || x.UID == *s.UID) &&
		(s.Container == "" || s.Container == in.Name ||
			len(s.Container) >= shortID && strings.HasPrefix(in.ID, s.Container)) &&
		(s.Pod == "" || in.Pod != "" && (s.Pod == in.Pod || s.Pod == in.Namespace+"/"+in.Pod))
}

// Matches reports whether a session that no list has, because it is over or new, is one of those that are meant.
func (s *Selection) Matches(x *Session) bool {
	return s.Allows(x) && (len(s.Words) == 0 || slices.ContainsFunc(s.Words,
		func(word string) bool { return Means(word, x) }))
}

// Means reports whether a word is the id of a session, its name or a pattern of names.
func Means(word string, x *Session) bool { return word == x.ID || likes(word, x) }

// Find asks for the sessions that are selected now. A word that names none is a choice without a session, or the
// error if more is said than words.
func (s *Selection) Find(ctx context.Context, c Client) (*Found, error) {
	if !s.Given() {
		return nil, NewError(CodeBadRequest, "no session is selected", "")
	}
	var asked []string
	if s.Idle > 0 {
		asked = []string{"idle"} // the daemon looks now
	}
	if s.Ended || s.State == string(StateEnded) {
		asked = append(asked, "all")
	} else if !s.Plain() {
		asked = append(asked, "live")
	}
	found := &Found{List: &Sessions{}}
	for _, state := range asked {
		list, err := c.Sessions(ctx, state, "")
		if err != nil {
			return nil, err
		}
		found.List = list
	}
	for i := 0; len(s.Words) == 0 && i < len(found.List.Items); i++ {
		found.add(s, Choice{Session: &found.List.Items[i]})
	}
	for _, word := range s.Words {
		choices, err := s.named(ctx, c, word, found.List.Items)
		if err != nil && s.Filters() {
			return nil, err
		}
		if err != nil {
			choices = []Choice{{Err: err}}
		}
		several := slices.ContainsFunc(choices,
			func(x Choice) bool { return x.Err == nil && x.Session.ID != choices[0].Session.ID })
		for _, x := range choices {
			x.Named = !several && !isPattern(word) && !s.Filters() && x.Err == nil
			if x.Process != nil {
				x.Within = word
			}
			found.add(s, x)
		}
	}
	return found, nil
}

func (f *Found) add(s *Selection, c Choice) {
	same := func(other Choice) bool { return c.Err == nil && other.Err == nil && c.Session.ID == other.Session.ID }
	if i := slices.IndexFunc(f.Choices, same); i >= 0 {
		had := &f.Choices[i]
		if had.Process = nil; c.Within == "" { // two words: the whole session
			had.Within, had.Named = "", had.Named && had.Within == "" || c.Named
		}
	} else if c.Err != nil || s.Allows(c.Session) {
		f.Choices = append(f.Choices, c)
	}
}

// Spares says why a session that no word names alone does not end, of those that a user sees; "": it ends.
func (s *Selection) Spares(x *Session, all []Session, uid int) string {
	busy := Within(all, x.ID, func(n *Session) bool { return n.Live > 0 && !s.Rests(n) })
	kept := Within(all, x.ID, func(n *Session) bool { return n.Kept })
	switch {
	case x.State == StateEnded:
		return "it is over"
	case x.UID != uid && uid != 0:
		return fmt.Sprintf("it is of uid %d", x.UID)
	case busy != nil:
		return fmt.Sprintf("it contains session %s, which is not selected", busy.ID)
	case x.Kept:
		return fmt.Sprintf("it is kept; \"lineage end %s\" ends it", x.ID)
	case kept != nil:
		return fmt.Sprintf("it contains session %s, which is kept; \"lineage end %s\" ends both",
			kept.ID, x.ID)
	}
	return ""
}

// Within returns a session at any depth inside the session id for which is reports true, or nil.
func Within(all []Session, id string, is func(*Session) bool) *Session {
	for i := range all {
		if x := &all[i]; x.Parent == id {
			if is(x) {
				return x
			}
			if found := Within(all, x.ID, is); found != nil {
				return found
			}
		}
	}
	return nil
}

// named asks for what one word names.
func (s *Selection) named(ctx context.Context, c Client, word string, list []Session) ([]Choice, error) {
	switch {
	case isPattern(word):
		return matching(word, list)
	case strings.HasPrefix(word, ":"):
		return listening(ctx, c, word)
	}
	ref, err := ParseRef(word)
	if err != nil || ref.StartNS == 0 { // a number is a PID unless a session has it
		x, unknown := SessionOf(ctx, c, word)
		if unknown == nil && s.Whole && x.ID != word && x.Name != word {
			return nil, NewError(CodeNotFound, fmt.Sprintf("session %s: not found", word),
				fmt.Sprintf("to end %s name it in full", x.ID))
		}
		if err != nil || !IsNotFound(unknown) {
			return []Choice{{Session: x}}, unknown
		}
	}
	p, err := c.Process(ctx, word)
	if err != nil {
		return nil, err
	}
	if p.Session == "" {
		return nil, NewError(CodeNotFound, fmt.Sprintf("pid %s belongs to no session", word), "")
	}
	x, err := c.Session(ctx, p.Session)
	return []Choice{{Session: x, Process: &p.Ref}}, err
}

// Processes finds the processes that one word names: by PID, PID@START, or a port that one session has.
func Processes(ctx context.Context, c Client, word string) (refs []Ref, err error) {
	if strings.HasPrefix(word, ":") {
		choices, err := listening(ctx, c, word)
		for _, x := range choices {
			if x.Session.ID != choices[0].Session.ID {
				return nil, NewError(CodeAmbiguous, "several sessions have "+word, "name the process")
			}
			refs = append(refs, *x.Process)
		}
		return refs, err
	}
	ref, err := ParseRef(word)
	if err != nil {
		return nil, NewError(CodeBadRequest,
			fmt.Sprintf("invalid PID %q: must be PID, PID@START or :PORT", word), "")
	}
	if ref.StartNS == 0 {
		p, err := c.Process(ctx, word)
		if err != nil {
			return nil, err
		}
		ref = p.Ref
	}
	return []Ref{ref}, nil
}

// LeftBy asks for what the selected sessions have left behind.
func (s *Selection) LeftBy(ctx context.Context, c Client) (*Orphans, error) {
	one, ids := "", []string{}
	if !s.All {
		found, err := s.Resolve(ctx, c)
		if err != nil {
			return nil, err
		}
		if ids = found.IDs(); len(ids) == 1 {
			one = ids[0]
		}
	}
	list, err := c.Orphans(ctx, one)
	if err == nil && !s.All && one == "" {
		list.Items = slices.DeleteFunc(list.Items,
			func(o Orphan) bool { return !slices.Contains(ids, o.Session) })
		list.Calls = slices.DeleteFunc(list.Calls,
			func(o CallLeft) bool { return !slices.Contains(ids, o.Session) })
	}
	return list, err
}

// SessionOf asks for the session with that id or name, or the one whose id begins with it.
func SessionOf(ctx context.Context, c Client, word string) (*Session, error) {
	x, err := c.Session(ctx, word)
	if _, pid := ParseRef(word); !IsNotFound(err) || len(word) < ShortestID || pid == nil {
		return x, err
	}
	list, listErr := c.Sessions(ctx, "all", "")
	if listErr != nil {
		return nil, err
	}
	items := slices.DeleteFunc(list.Items, func(x Session) bool { return !strings.HasPrefix(x.ID, word) })
	switch len(items) {
	case 0:
		return nil, err
	case 1:
		return c.Session(ctx, items[0].ID)
	}
	several := NewError(CodeAmbiguous, fmt.Sprintf("session %s: several ids begin with that", word),
		"write more of it")
	several.Items = items
	return nil, several
}

// matching finds the sessions whose names match a pattern.
func matching(pattern string, list []Session) (choices []Choice, err error) {
	names := "names are"
	for i := range list {
		if likes(pattern, &list[i]) {
			choices = append(choices, Choice{Session: &list[i]})
		} else if len(names) < suggested {
			names += strings.TrimRight(" "+list[i].Name, " ")
		}
	}
	switch {
	case len(choices) == 0:
		return nil, NewError(CodeNotFound, fmt.Sprintf("no session has a name like %s", pattern), names)
	case len(choices) > MaxMatched:
		return nil, NewError(CodeBadRequest, fmt.Sprintf("%d sessions have a name like %s, at most %d are taken",
			len(choices), pattern, MaxMatched), "")
	}
	return choices, nil
}

// likes reports whether a session has a name that matches.
func likes(pattern string, x *Session) bool {
	match, _ := path.Match(pattern, x.Name)
	return match && x.Name != ""
}

// listening finds the members of sessions that listen on a port.
func listening(ctx context.Context, c Client, word string) (choices []Choice, err error) {
	proto, port, err := ParsePort(word)
	if err != nil {
		return nil, err
	}
	holders, err := c.WhyPort(ctx, proto, port)
	if err != nil {
		return nil, err
	}
	for i := range holders.Items {
		if w := &holders.Items[i]; w.Session != nil {
			choices = append(choices, Choice{Session: w.Session, Process: &w.Process.Ref})
		}
	}
	if len(choices) == 0 {
		return nil, NewError(CodeNotFound, "no session has "+word, "see \"lineage why "+word+"\"")
	}
	return choices, nil
}

// IsNotFound reports whether the daemon knows nothing of that name.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == CodeNotFound
}
