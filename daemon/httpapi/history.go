//go:build linux

package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/journal"
)

// getHistory lists ended sessions, the newest first, page by page.
func (h *sessions) getHistory(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) (err error) {
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
		if x.Before, err = history.ParsePlace(text); err != nil {
			return err
		}
	}
	d, err := h.Archive.Ended(r.Context(), x, c)
	return send(w, http.StatusOK, d, err)
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
			return from, to, api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid %s %q: must be %v", x.name, x.text, err), "")
		}
	}
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		return from, to, api.NewError(api.CodeBadRequest, fmt.Sprintf("since %s is after until %s", since, until), "")
	}
	return from, to, nil
}
