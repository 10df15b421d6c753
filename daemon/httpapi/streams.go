//go:build linux

package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getEvents streams events from ?from= or from now on, with ?snapshot=1 the
// present processes first.
func (h *sessions) getEvents(w http.ResponseWriter, r *http.Request,
	c access.Caller, q url.Values) (err error) {
	req := stream.EventsRequest{Session: q.Get("session"), From: stream.Now,
		Snapshot: q.Get("snapshot") == "1",
		Gzip:     strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")}
	if text := q.Get("type"); text != "" {
		for t := range strings.SplitSeq(text, ",") {
			if !slices.Contains(api.EventTypes, api.EventType(t)) {
				return unknown("type", t, api.TypeNames(document.EventNames[tracer.EventBirth:]))
			}
			req.Types = append(req.Types, api.EventType(t))
		}
	}
	if text := q.Get("from"); text != "" {
		if req.From, err = strconv.ParseUint(text, 10, 64); err != nil {
			return api.Errorf(api.CodeBadRequest, "invalid from %q: must be a sequence number", text)
		}
	}
	if req.Since, req.Until, err = between(q); err != nil {
		return err
	}
	if text := q.Get("snapshot"); text != "" && text != "0" && text != "1" {
		return api.Errorf(api.CodeBadRequest, "invalid snapshot %q: must be 0 or 1", text)
	}
	return h.Events.Serve(r.Context(), w, c, req)
}

// getWatch streams the picture, and then its changes.
func (h *sessions) getWatch(w http.ResponseWriter, r *http.Request, c access.Caller, _ url.Values) error {
	return h.Feed.Serve(r.Context(), w, c)
}
