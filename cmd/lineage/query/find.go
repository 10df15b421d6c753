package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// shortest is how many characters of an id name a session, if no other id begins with them.
const shortest = 3

// Finder is a client that also finds a session by the beginning of its id, in requests
// that only read. Calls that change something need the whole id or name.
type Finder struct{ api.Client }

// find asks for the session that word names; if there is none, for the one whose id begins with it.
func find[T any](ctx context.Context, f Finder, word string, ask func(word string) (T, error)) (T, error) {
	doc, err := ask(word)
	if !NotFound(err) || len(word) < shortest || digits.MatchString(word) { // a number is a PID
		return doc, err
	}
	list, listErr := f.Sessions(ctx, "all", "")
	if listErr != nil {
		return doc, err
	}
	var matches []api.Session
	for _, s := range list.Items {
		if strings.HasPrefix(s.ID, word) {
			matches = append(matches, s)
		}
	}
	switch len(matches) {
	case 0:
		return doc, err
	case 1:
		return ask(matches[0].ID)
	}
	ambiguous := api.NewError(api.CodeAmbiguous, fmt.Sprintf("session %s: several ids begin with that", word), "write more of it")
	ambiguous.Items = matches
	return doc, ambiguous
}

func (f Finder) Session(ctx context.Context, word string) (*api.Session, error) {
	return find(ctx, f, word, func(word string) (*api.Session, error) { return f.Client.Session(ctx, word) })
}

func (f Finder) Tree(ctx context.Context, word, dead string) (*api.Tree, error) {
	return find(ctx, f, word, func(word string) (*api.Tree, error) { return f.Client.Tree(ctx, word, dead) })
}

func (f Finder) Orphans(ctx context.Context, word string) (*api.Orphans, error) {
	return find(ctx, f, word, func(word string) (*api.Orphans, error) { return f.Client.Orphans(ctx, word) })
}

func (f Finder) Events(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error {
	_, err := find(ctx, f, q.Session, func(word string) (struct{}, error) {
		q.Session = word
		return struct{}{}, f.Client.Events(ctx, q, each)
	})
	return err
}
