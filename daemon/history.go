//go:build linux

package daemon

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getHistory lists ended sessions, the last first, page by page.
func (s *server) getHistory(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) (err error) {
	x := journal.Query{Limit: api.DefaultPage}
	if x.Since, x.Until, err = between(q.Get("since"), q.Get("until"), time.Now()); err != nil {
		return err
	}
	if text := q.Get("limit"); text != "" {
		if x.Limit, err = strconv.Atoi(text); err != nil || x.Limit < 1 || x.Limit > api.MaxPage {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid limit %q: must be 1 to %d", text, api.MaxPage), "")
		}
	}
	if text := q.Get("next"); text != "" {
		if x.Before, err = parsePlace(text); err != nil {
			return err
		}
	}
	d, err := s.endedSessions(r.Context(), x, c)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// between reads the ends of a time range; absent ones are zero.
func between(since, until string, now time.Time) (from, to time.Time, err error) {
	for _, x := range []struct {
		name, text string
		t          *time.Time
	}{{"since", since, &from}, {"until", until, &to}} {
		if x.text == "" {
			continue
		}
		if *x.t, err = api.ParseTime(x.text, now); err != nil {
			return from, to, api.NewError(api.CodeBadRequest, fmt.Sprintf("%s: %v", x.name, err), "")
		}
	}
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		return from, to, api.NewError(api.CodeBadRequest, fmt.Sprintf("since %s is after until %s", since, until), "")
	}
	return from, to, nil
}

// A next is opaque to callers: where a page ended.
func formatPlace(p journal.Place) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", p.Ended, p.ID))
}

func parsePlace(text string) (p journal.Place, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		ended, id, _ := strings.Cut(string(b), ".")
		if p.Ended, err = strconv.ParseInt(ended, 10, 64); err == nil {
			var n uint64
			n, err = strconv.ParseUint(id, 10, 63)
			p.ID = tracer.SessionID(n)
		}
	}
	if err != nil || p.Ended <= 0 || formatPlace(p) != text {
		return p, api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid next %.100q: it is not from a page", text), "omit it to begin with the newest session")
	}
	return p, nil
}

// endedSession is one on its way to a caller.
type endedSession struct {
	journal.Place
	boot string
	doc  api.Session
}

// endedSessions is a page of what c may read of the ended sessions: those of
// the history, and those in memory that it does not have yet or cannot have.
// A member sees what is nested in its own session, which memory has.
func (s *server) endedSessions(ctx context.Context, q journal.Query, c access.Caller) (*api.Sessions, error) {
	if c.UID != 0 && !c.Group && c.Member == 0 {
		q.UID = &c.UID
	}
	all, err := s.endedInMemory(q, c)
	if err != nil {
		return nil, err
	}
	var rows []journal.Session
	if c.Member == 0 {
		page := q
		page.Limit++ // to see whether there is more
		if rows, err = s.recorder.Journal().Ended(ctx, page); err != nil {
			s.log.Error().Err(err).Msg("history not read") // the status says why; memory is what there is
		}
	}
	for i := range rows {
		row := &rows[i]
		if slices.ContainsFunc(all, func(x endedSession) bool { return x.ID == row.ID && x.boot == row.Boot }) {
			continue
		}
		p := past{Session: *row}
		if json.Unmarshal(row.Doc, &p.doc) != nil {
			continue // its sum was right: another version wrote it
		}
		p.show(c)
		all = append(all, endedSession{row.Place(), row.Boot, p.doc})
	}
	slices.SortFunc(all, func(a, b endedSession) int {
		return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(b.ID, a.ID))
	})
	d := &api.Sessions{Head: head("sessions"), Items: []api.Session{}}
	if len(all) > q.Limit {
		all = all[:q.Limit]
		d.Next = formatPlace(all[len(all)-1].Place)
	}
	for i := range all {
		all[i].doc.Head = api.Head{Kind: "session"}
		d.Items = append(d.Items, all[i].doc)
	}
	return d, nil
}

// addEnded adds the newest ended sessions to a list, which is then by start;
// Next is for the history.
func (s *server) addEnded(ctx context.Context, d *api.Sessions, name string, c access.Caller) error {
	ended, err := s.endedSessions(ctx, journal.Query{Name: name, Limit: api.MaxPage}, c)
	if err != nil {
		return err
	}
	for _, x := range ended.Items {
		// One that was live a moment ago stands for itself.
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

// endedInMemory gives those of the ended sessions in memory that q selects.
func (s *server) endedInMemory(q journal.Query, c access.Caller) (all []endedSession, err error) {
	err = s.read(c, func(v registry.View) {
		for _, x := range v.Ended() {
			ended := s.clock.Wall(x.Emptied())
			place := journal.Place{Ended: ended.UnixNano(), ID: x.ID()}
			if !place.Behind(q.Before) || !q.Since.IsZero() && ended.Before(q.Since) || !q.Until.IsZero() && ended.After(q.Until) ||
				q.Name != "" && x.Info().Name != q.Name || !access.Decide(c, access.Read, v.Scope(x)).Allow {
				continue
			}
			all = append(all, endedSession{place, s.bootID, v.Document(x, c)})
		}
	})
	return all, err
}
