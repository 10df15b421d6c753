package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// orders are the ways to sort sessions: text in ascending order, numbers and ages with the
// largest first.
var orders = map[string]func(a, b *api.Session) int{
	"age":     nil, // see [Sessions.age]
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

// Sessions says which sessions are wanted.
type Sessions struct {
	All   bool          // ended ones, too
	Sort  string        // one of [Orders]; "": as the daemon lists them
	State string        // "": in any state; a state of package api, [text.Leftover], [text.Paused] or kept
	Idle  time.Duration // 0: idle or not
	Where ending.Where  // of its root
	Now   time.Time
}

// List requests the wanted sessions, in the wanted order.
func (o *Sessions) List(ctx context.Context, c api.Client) (*text.Listing, error) {
	state := "live"
	if o.Idle > 0 {
		state = "idle"
	} else if o.All || o.State == "ended" {
		state = "all"
	}
	list, err := c.Sessions(ctx, state, "")
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(s api.Session) bool {
		return !o.inState(&s) || s.IdleSeconds < o.Idle.Seconds() || !o.Where.Holds(s.Container)
	})
	order := orders[o.Sort]
	if o.Sort == "age" {
		order = func(a, b *api.Session) int { return cmp.Compare(o.age(b), o.age(a)) }
	}
	if order != nil {
		slices.SortStableFunc(list.Items, func(a, b api.Session) int { return order(&a, &b) })
	}
	l := text.Sessions(list)
	if len(list.Items) == 0 {
		l.Empty = `no session; start one with "lineage run -- CMD"; ended ones: "ls -a"`
		if o.Idle > 0 {
			l.Empty = "no session was idle for " + o.Idle.String()
		}
	}
	return l, nil
}

// age is how old a session is, or how long it lasted.
func (o *Sessions) age(s *api.Session) time.Duration {
	return cmp.Or(s.Ended, &o.Now).Sub(*cmp.Or(s.Started, &time.Time{}))
}

// inState reports whether a session is in the wanted state. A leftover, a paused and a kept one is active, too.
func (o *Sessions) inState(s *api.Session) bool {
	switch o.State {
	case "":
		return true
	case "kept":
		return s.Kept
	case text.Leftover:
		return text.IsLeftover(s)
	case text.Paused:
		return s.IsPaused()
	}
	return string(s.State) == o.State
}
