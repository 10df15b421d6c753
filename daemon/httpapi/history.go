//go:build linux

package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/history"
)

// getHistory lists ended sessions, the newest first, page by page; or it gives one receipt after the other.
func (h *sessions) getHistory(w http.ResponseWriter, r *http.Request,
	c access.Caller, q url.Values) (err error) {
	if q.Has("after") {
		d, err := h.receiptAfter(r.Context(), q.Get("after"), c)
		return send(w, http.StatusOK, d, err)
	}
	x := history.Query{Limit: api.DefaultPage}
	if x.Since, x.Until, err = between(q); err != nil {
		return err
	}
	if text := q.Get("limit"); text != "" {
		if x.Limit, err = strconv.Atoi(text); err != nil || x.Limit < 1 || x.Limit > api.MaxPage {
			return api.Errorf(api.CodeBadRequest, "invalid limit %q: must be 1 to %d", text, api.MaxPage)
		}
	}
	if text := q.Get("next"); text != "" {
		if x.Before, err = history.ParsePlace(text); err != nil {
			return err
		}
	}
	d, err := h.Archive.Ended(r.Context(), x, c)
	return send(w, http.StatusOK, d, err)
}

// receiptAfter is the receipt after a place, of a session before those of commands. A place is the number of a session
// and that of a command.
func (h *sessions) receiptAfter(ctx context.Context, place string,
	c access.Caller) (d *api.Sessions, err error) {
	if d := access.Decide(c, access.Read, access.Scope{}); !d.Allow { // they are of all users
		return nil, h.Access.Refuse(c, access.Read, "receipts", d)
	}
	c.UID, c.Group = ^uint32(0), true // a command's is signed: what stores it elsewhere cannot hide secrets any more
	var session, command int64
	if place == "now" {
		if session, err = h.Archive.Journal().Newest(ctx); err != nil {
			return nil, err
		}
		command = h.Signed.Newest(ctx, c)
	} else if _, err := fmt.Sscanf(place, "%d.%d", &session, &command); err != nil ||
		fmt.Sprintf("%d.%d", session, command) != place {
		return nil, api.Errorf(api.CodeBadRequest,
			"invalid after %.100q: must be now, or the next of an answer", place)
	}
	d = &api.Sessions{Head: api.NewHead("sessions"), Items: []api.Session{}}
	if d.Receipt, session, err = h.Archive.After(ctx, session, c); d.Receipt == nil && err == nil {
		d.Receipt, command, err = h.Signed.After(ctx, command, c)
	}
	d.Next = fmt.Sprintf("%d.%d", session, command)
	return d, err
}

// between reads the ends of a time range; absent ones are zero.
func between(q url.Values) (from, to time.Time, err error) {
	if from, to, err = api.ParseRange("", q.Get("since"), q.Get("until"), time.Now()); err != nil {
		err = api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	return from, to, err
}
