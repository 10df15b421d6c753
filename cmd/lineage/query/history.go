package query

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Past is a session that is over, its receipt and its processes.
func Past(ctx context.Context, c api.Client, name string, everybody bool) (*text.Listing, error) {
	s, err := Ended(ctx, c, name)
	if err != nil {
		return nil, err
	}
	r, err := c.Report(ctx, s.ID, 0)
	if err != nil {
		return nil, err
	}
	t, err := c.Tree(ctx, s.ID, "all")
	if err != nil {
		return nil, err
	}
	t.Session = s
	remembered := len(t.Nodes)
	if !everybody {
		text.KeepEnded(t, r)
	}
	return text.Past(r, t, remembered-len(t.Nodes)), nil
}

// Ended is the session that is over with that id, or the last one with that name.
func Ended(ctx context.Context, c api.Client, name string) (*api.Session, error) {
	s, err := api.SessionOf(ctx, c, name)
	if err == nil && s.State == api.StateEnding { // its grace is when it is asked for
		if _, err = c.Report(ctx, s.ID, time.Minute); err == nil {
			s, err = c.Session(ctx, s.ID)
		}
	}
	if err != nil || s.State == api.StateEnded {
		return s, err
	}
	return lastEnded(ctx, c, s, name)
}

func lastEnded(ctx context.Context, c api.Client, live *api.Session, name string) (*api.Session, error) {
	list, err := c.Sessions(ctx, "ended", name)
	if err != nil {
		return nil, err
	}
	var last *api.Session
	for i := range list.Items {
		s := &list.Items[i]
		if s.Name == name && (last == nil || last.Ended == nil || s.Ended != nil && s.Ended.After(*last.Ended)) {
			last = s
		}
	}
	if last == nil {
		return nil, cli.Errorf(api.ExitNotFound, "history %s: the session is %s; see \"lineage tree %s\"",
			name, live.State, live.ID)
	}
	return last, nil
}

// History asks for pages until it has as many of the selected sessions as wanted.
func History(ctx context.Context, c api.Client, q api.HistoryQuery,
	sel *api.Selection) (*api.Sessions, error) {
	all := &api.Sessions{}
	want := q.Limit
	for {
		q.Limit = api.MaxPage
		if want > 0 && sel.OrAll().All {
			q.Limit = min(want-len(all.Items), api.MaxPage)
		}
		page, err := c.History(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if sel.Matches(&page.Items[i]) && (want == 0 || len(all.Items) < want) {
				all.Items = append(all.Items, page.Items[i])
			}
		}
		all.Next = page.Next
		if page.Next == "" || want > 0 && len(all.Items) >= want {
			return all, nil
		}
		q.Next = page.Next
	}
}
