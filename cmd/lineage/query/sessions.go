package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// orders are the ways to sort sessions: text in ascending order, numbers and ages with the
// largest first.
var orders = map[string]func(a, b *api.Session) int{
	"age":     nil, // see [age]
	"cpu":     func(a, b *api.Session) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) },
	"cpus":    func(a, b *api.Session) int { return cmp.Compare(b.CPUs, a.CPUs) },
	"id":      func(a, b *api.Session) int { return cmp.Compare(a.ID, b.ID) },
	"live":    func(a, b *api.Session) int { return cmp.Compare(b.Live, a.Live) },
	"name":    func(a, b *api.Session) int { return cmp.Compare(a.Name, b.Name) },
	"orphans": func(a, b *api.Session) int { return cmp.Compare(b.Orphans, a.Orphans) },
	"rss":     func(a, b *api.Session) int { return cmp.Compare(b.RSSBytes, a.RSSBytes) },
	"state":   func(a, b *api.Session) int { return cmp.Compare(a.State, b.State) },
}

// Orders are the names of the ways to sort sessions.
func Orders() []string { return slices.Sorted(maps.Keys(orders)) }

// Sessions asks for the selected sessions, in one of [Orders]; "": as the daemon lists them.
func Sessions(ctx context.Context, c api.Client, sel *api.Selection, by string, now time.Time) (*text.Listing, error) {
	found, err := sel.Resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	list, others := found.List, len(found.List.Items)
	list.Items = nil
	for _, x := range found.Choices {
		list.Items = append(list.Items, *x.Session)
	}
	order := orders[by]
	if by == "age" {
		order = func(a, b *api.Session) int { return cmp.Compare(age(b, now), age(a, now)) }
	}
	if order != nil {
		slices.SortStableFunc(list.Items, func(a, b api.Session) int { return order(&a, &b) })
	}
	l := text.Sessions(list)
	switch {
	case len(list.Items) == 0 && others > 0:
		l.Empty = "no session; of " + display.Count(others, "session") + " none is selected"
	case len(list.Items) == 0:
		l.Empty = `no session; start one with "lineage run -- CMD"; ended ones: "ls -a"`
	}
	return l, nil
}

// age is how old a session is, or how long it lasted.
func age(s *api.Session, now time.Time) time.Duration {
	return cmp.Or(s.Ended, &now).Sub(*cmp.Or(s.Started, &time.Time{}))
}
