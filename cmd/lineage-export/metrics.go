//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// Limits of a server: scrapes are few and small, and none waits for the daemon, or
// keeps it busy, for longer than this.
const (
	maxAsked = 4               // scrapes that ask the daemon at the same time
	maxReply = 8 << 20         // bytes of one
	answerIn = 5 * time.Second // as api.ErrSilent says
)

// daemon is what scrapes ask: the daemon behind a socket, which decides whether this program may read them.
type daemon struct {
	socket   string
	to       http.RoundTripper
	answerIn time.Duration
}

func newDaemon(socket string, answerIn time.Duration) *daemon {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	// The daemon limits connections; one scrape a minute should not keep one open.
	to := &http.Transport{DialContext: dial, DisableKeepAlives: true,
		DisableCompression: true, MaxConnsPerHost: maxAsked}
	return &daemon{socket, to, answerIn}
}

// listenMetrics binds the address, and asks the daemon behind this socket whether it lets this user
// read its metrics: its refusal is an *api.Error. A daemon that does not run may come later.
func listenMetrics(ctx context.Context, address, socket string, log zerolog.Logger) (*service.Metrics, error) {
	d := newDaemon(socket, answerIn)
	if _, _, err := d.ask(ctx, ""); errors.As(err, new(*api.UnreachableError)) {
		log.Warn().Err(err).Msg("the metrics cannot be read yet")
	} else if err != nil {
		return nil, err
	}
	return service.ListenMetrics(ctx, address, d.scrape, answerIn, log)
}

// scrape answers 502 without a daemon, so that Prometheus counts it as down.
func (d *daemon) scrape(w http.ResponseWriter, r *http.Request) {
	kind, body, err := d.ask(r.Context(), r.Header.Get("Accept"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body) // the reader may be gone
}

// ask is the daemon's complete answer, and its type.
func (d *daemon) ask(ctx context.Context, accept string) (kind string, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.answerIn)
	defer cancel()
	defer func() {
		if ctx.Err() != nil {
			err = api.ErrSilent
		}
		if err != nil && !errors.As(err, new(*api.Error)) {
			err = &api.UnreachableError{Socket: d.socket, Err: err}
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lineage/metrics", nil)
	if err != nil {
		return "", nil, err
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	got, err := d.to.RoundTrip(r)
	if err != nil {
		return "", nil, err
	}
	defer got.Body.Close()
	switch got.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden:
		return "", nil, api.NewError(
			api.CodeDenied,
			"the daemon refuses its metrics: only root and the group lineage may read them",
			"run as a member of the group",
		)
	default:
		return "", nil, fmt.Errorf("%w: /metrics: %s", api.ErrNotLineage, got.Status)
	}
	body, err = io.ReadAll(io.LimitReader(got.Body, maxReply+1))
	if len(body) > maxReply {
		err = fmt.Errorf("%w: more than %d bytes of metrics", api.ErrNotLineage, maxReply)
	}
	return got.Header.Get("Content-Type"), body, err
}
