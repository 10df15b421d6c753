//go:build linux

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
)

// whyPortAt answers about the members that listened on a TCP port at a time, from the history.
func (h *processes) whyPortAt(w http.ResponseWriter, r *http.Request, c access.Caller,
	port uint16, proto, text string) error {
	at, err := api.ParseTime(text, time.Now())
	switch {
	case err != nil:
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid at %q: must be %v", text, err), "")
	case proto != "tcp":
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("port %d/%s: the history has TCP ports only", port, proto), "")
	case c.Foreign:
		return lookup.Foreign(c)
	}
	d := api.Holders{Head: api.NewHead("holders"), Items: []api.Why{}}
	found := h.Archive.Listeners(r.Context(), port, at)
	for i := range found {
		l := &found[i]
		why, err := h.whyListener(r.Context(), l, c)
		var refused *api.Error
		switch {
		case errors.As(err, &refused) && refused.Code == api.CodeDenied:
			d.Hidden++
		case errors.As(err, &refused):
			d.Unknown = append(d.Unknown, refused.Message)
		case err != nil:
			return err
		case l.Ended.IsZero() && why.Process.Exited != nil && why.Process.Exited.Before(at):
			// As far as is known, it was closed with its process.
		default:
			why.Holds = &api.Holds{Ports: []api.Port{document.Listener(l.Process, l.Address, l.Began, l.Ended)}}
			d.Items = append(d.Items, *why)
		}
	}
	switch {
	case len(d.Items) > 0:
		return reply(w, http.StatusOK, d)
	case d.Hidden > 0:
		return api.NewError(
			api.CodeDenied,
			fmt.Sprintf("why port %d/tcp: not permitted: %s it", port, ofOthers(d.Hidden, "held", "held")),
			"run with sudo",
		)
	}
	return api.NewError(
		api.CodeNotFound,
		fmt.Sprintf("no member listened on %d/tcp at %s, as far as the history goes", port, at.UTC().Format(time.RFC3339)),
		"see \"lineage history\" for how far that is",
	)
}

// whyListener answers from memory, else from the history.
func (h *processes) whyListener(ctx context.Context, l *history.Listener, c access.Caller) (*api.Why, error) {
	if !h.Archive.Current(l) {
		return h.Archive.WhyListener(ctx, l, c)
	}
	id, live, err := h.Find.Identity(document.Ref(l.Process).String(), c)
	if lookup.IsForgotten(err) {
		return h.Archive.WhyListener(ctx, l, c)
	}
	if err != nil {
		return nil, err
	}
	p, err := h.Find.Process(id, live, c)
	if err != nil {
		return nil, err
	}
	why, err := h.Find.Why(id, live, p, c)
	return &why, err
}
