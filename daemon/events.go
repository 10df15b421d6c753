//go:build linux

package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getEvents streams events from ?from= or from now on, with ?snapshot=1 the
// present processes first.
func (s *server) getEvents(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "session", "type", "from", "since", "until", "snapshot")
	if err != nil {
		return err
	}
	req := stream.Request{Session: q.Get("session"), From: stream.Now, Snapshot: q.Get("snapshot") == "1"}
	if text := q.Get("type"); text != "" {
		req.Types = strings.Split(text, ",")
		for _, t := range req.Types {
			if t == "" || !slices.Contains(document.EventNames[:], t) {
				return unknown("type", t, document.EventNames[tracer.EventBirth:])
			}
		}
	}
	if text := q.Get("from"); text != "" {
		if req.From, err = strconv.ParseUint(text, 10, 64); err != nil {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("from %q: want a sequence number", text), "")
		}
	}
	if req.Since, req.Until, err = between(q.Get("since"), q.Get("until"), time.Now()); err != nil {
		return err
	}
	if text := q.Get("snapshot"); text != "" && text != "0" && text != "1" {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("snapshot %q: want 0 or 1", text), "")
	}
	return s.events.Serve(r.Context(), w, c, req)
}
