package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

func Orders() []string { return slices.Sorted(maps.Keys(orders)) }

// Sessions asks for the selected sessions, in one of [Orders]; "": as the daemon lists them.
func Sessions(ctx context.Context, c api.Client, sel *api.Selection, by string,
	now time.Time) (*text.Listing, error) {
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

// Trees asks for the trees of the selected sessions, and for a process that a word names for what it started; all:
// with every exited process.
func Trees(ctx context.Context, c api.Client, sel *api.Selection,
	all bool) (trees []api.Tree, err error) {
	dead := "ancestors"
	if all {
		dead = "all"
	}
	found, err := sel.Resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	trees = []api.Tree{}
	for _, x := range found.Choices {
		t, err := c.Tree(ctx, x.Session.ID, dead)
		if !x.Named && api.IsNotFound(err) {
			continue // it ended since it was listed
		}
		if err != nil {
			return nil, err
		}
		if x.Process != nil {
			sub, ok := text.Subtree(t, *x.Process)
			if !ok {
				return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s is gone", x.Process),
					"see it with --all")
			}
			t = sub
		}
		trees = append(trees, *t)
	}
	return trees, nil
}

func Left(list func(*api.Orphans) *text.Listing) func(context.Context, api.Client, *api.Selection) (*text.Listing, error) {
	return func(ctx context.Context, c api.Client, sel *api.Selection) (*text.Listing, error) {
		doc, err := sel.LeftBy(ctx, c)
		if err != nil {
			return nil, err
		}
		return list(doc), nil
	}
}

// Equal groups the equal processes of the selected sessions.
func Equal(ctx context.Context, c api.Client, sel *api.Selection) (*text.Listing, error) {
	trees, err := Trees(ctx, c, sel, false)
	return text.Equal(trees), err
}

// HostOrphans finds the orphans of this host; unknown is what could not be read.
type HostOrphans func(context.Context) (orphans []text.HostOrphan, unknown []string, err error)

func Outside(ctx context.Context, c api.Client, find HostOrphans) (*text.Listing, error) {
	orphans, unknown, err := find(ctx)
	if err != nil {
		return nil, fmt.Errorf("ls: %w", err)
	}
	doc := text.HostOrphans{Items: []text.HostOrphan{}, Unknown: unknown}
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orphans {
		if o.PID == v.PID {
			continue // the daemon itself
		}
		p, err := c.Process(ctx, o.Ref.String())
		if api.IsNotFound(err) || err == nil && p.Session != "" {
			continue // it is gone, or "lineage ls --left" lists it
		}
		if err == nil {
			o.Ref = p.Ref // with its exact start
		}
		o.Ports = slices.DeleteFunc(o.Ports, func(port api.Port) bool {
			if port.PID == 0 || port.PID == o.PID {
				return false
			}
			holder, err := c.Process(ctx, strconv.Itoa(port.PID))
			return err == nil && holder.Session != "" // a session that the orphan started
		})
		if !o.Holds() {
			continue
		}
		doc.Items = append(doc.Items, o)
	}
	return text.OutsideOrphans(&doc), nil
}
