//go:build linux

package history

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// A next is opaque to callers: it says where a page ended.
func formatPlace(p Place) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", p.Ended, p.ID))
}

// ParsePlace decodes where the next page begins.
func ParsePlace(text string) (p Place, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d.%d", &p.Ended, &p.ID)
	}
	if err != nil || p.Ended <= 0 || p.ID>>63 != 0 || formatPlace(p) != text {
		return p, api.NewError(
			api.CodeBadRequest,
			fmt.Sprintf("invalid next %.100q: it is not from a page", text),
			"omit it to begin with the newest session",
		)
	}
	return p, nil
}

// Ended is a page of the ended sessions that c may read: those of the history, and
// those in memory that it does not have yet or cannot have. A member sees sessions
// nested in its own, if they are in memory.
func (a *Archive) Ended(ctx context.Context, q Query, c access.Caller) (*api.Sessions, error) {
	if c.UID != 0 && !c.Group && c.Member == 0 {
		q.UID = &c.UID
	}
	all, err := a.endedInMemory(q, c)
	if err != nil {
		return nil, err
	}
	var rows []Session
	if c.Member == 0 {
		page := q
		page.Limit++ // to see whether there are more
		rows, err = a.r.Journal.Ended(ctx, page)
		a.unread(err) // memory is what there is
	}
	for i := range rows {
		row := &rows[i]
		at := slices.IndexFunc(all, func(x Past) bool { return x.ID == row.ID && x.Boot == row.Boot })
		if at >= 0 && !all[at].saved {
			continue
		}
		p, err := decodePast(row, c)
		switch {
		case err != nil: // its checksum was right: another version wrote it
		case at >= 0:
			all[at] = *p
		default:
			all = append(all, *p)
		}
	}
	slices.SortFunc(all, func(a, b Past) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(b.ID, a.ID)) })
	d := &api.Sessions{Head: api.NewHead("sessions"), Items: []api.Session{}}
	if len(all) > q.Limit {
		all = all[:q.Limit]
		d.Next = formatPlace(all[len(all)-1].Place())
	}
	for i := range all {
		if c.Member != 0 && all[i].saved {
			if p := a.Session(ctx, all[i].ID, c); p != nil {
				all[i] = *p
			}
		}
		all[i].doc.Head = api.Head{Kind: "session"}
		d.Items = append(d.Items, all[i].doc)
	}
	return d, nil
}

// AddEnded adds the newest ended sessions to a list, and sorts it by start; Next is for
// the history.
func (a *Archive) AddEnded(ctx context.Context, d *api.Sessions, name string, c access.Caller) error {
	ended, err := a.Ended(ctx, Query{Name: name, Limit: api.MaxPage}, c)
	if err != nil {
		return err
	}
	for _, x := range ended.Items {
		// If it was live a moment ago, the list has it already.
		if !slices.ContainsFunc(d.Items, func(y api.Session) bool { return x.ID == y.ID }) {
			d.Items = append(d.Items, x)
		}
	}
	slices.SortStableFunc(d.Items, func(a, b api.Session) int {
		if a.Started == nil || b.Started == nil {
			return 0
		}
		return cmp.Or(a.Started.Compare(*b.Started), cmp.Compare(a.ID, b.ID))
	})
	d.Next = ended.Next
	return nil
}

func (a *Archive) endedInMemory(q Query, c access.Caller) (all []Past, err error) {
	err = a.r.Registry.ReadFor(c, func(v registry.View) {
		for _, x := range v.Ended() {
			ended := a.r.Clock.Wall(x.Emptied())
			p := Past{Session: Session{Boot: a.r.Boot, ID: x.ID(), Ended: *ended}}
			if !p.Place().Behind(q.Before) || !q.Since.IsZero() && ended.Before(q.Since) ||
				!q.Until.IsZero() && ended.After(q.Until) ||
				q.Name != "" && x.Info().Name != q.Name || !access.Decide(c, access.Read, v.Scope(x)).Allow {
				continue
			}
			p.doc, p.saved = v.Document(x, c), a.r.marks.saved[x.ID()]
			all = append(all, p)
		}
	})
	return all, err
}
