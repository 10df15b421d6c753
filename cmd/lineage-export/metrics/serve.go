//go:build linux

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
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

// A Server serves the metrics of the daemon behind a socket to every client that can
// connect to its address.
type Server struct {
	socket   string
	ln       net.Listener
	daemon   http.Client
	asked    chan struct{}
	answerIn time.Duration
}

func newServer(socket string) *Server {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Server{
		socket: socket, asked: make(chan struct{}, maxAsked), answerIn: answerIn,
		// The daemon limits connections; one scrape a minute should not keep one open.
		daemon: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}},
	}
}

// Listen binds the address, and asks the daemon behind this socket whether it lets this user
// read its metrics: its refusal is an *api.Error. A daemon that does not run may come later.
func Listen(ctx context.Context, address, socket string, log zerolog.Logger) (*Server, error) {
	s := newServer(socket)
	if _, err := s.ask(ctx, ""); errors.As(err, new(*api.UnreachableError)) {
		log.Warn().Err(err).Msg("the metrics cannot be read yet")
	} else if err != nil {
		return nil, err
	}
	var err error
	if s.ln, err = service.ListenMetrics(ctx, address, log); err != nil {
		return nil, err
	}
	return s, nil
}

// Serve serves GET /metrics, and nothing else, until ctx is done.
func (s *Server) Serve(ctx context.Context) error {
	return service.ServeMetrics(ctx, s.ln, s.scrape, s.answerIn)
}

// scrape answers 502 without a daemon, so that Prometheus counts it as down.
func (s *Server) scrape(w http.ResponseWriter, r *http.Request) {
	got, err := s.ask(r.Context(), r.Header.Get("Accept"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", got.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(got.body)))
	_, _ = w.Write(got.body) // the reader may be gone
}

// A reply is the daemon's complete answer.
type reply struct {
	kind string
	body []byte
}

func (s *Server) ask(ctx context.Context, accept string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.answerIn)
	defer cancel()
	select {
	case s.asked <- struct{}{}:
		defer func() { <-s.asked }()
	case <-ctx.Done():
		return reply{}, errors.New("too many scrapes at once")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lineage/metrics", nil)
	if err != nil {
		return reply{}, err
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	got, err := s.daemon.Do(r)
	if err != nil {
		return reply{}, s.unreachable(ctx, err)
	}
	defer got.Body.Close()
	switch {
	case got.StatusCode == http.StatusForbidden:
		return reply{}, api.NewError(
			api.CodeDenied,
			"the daemon refuses its metrics: only root and the group lineage may read them",
			"run as a member of the group",
		)
	case got.StatusCode != http.StatusOK:
		return reply{}, s.unreachable(ctx, fmt.Errorf("%w: /metrics: %s", api.ErrNotLineage, got.Status))
	}
	body, err := io.ReadAll(io.LimitReader(got.Body, maxReply+1))
	if err != nil {
		return reply{}, s.unreachable(ctx, err)
	}
	if len(body) > maxReply {
		return reply{}, s.unreachable(ctx, fmt.Errorf("%w: more than %d bytes of metrics", api.ErrNotLineage, maxReply))
	}
	return reply{got.Header.Get("Content-Type"), body}, nil
}

func (s *Server) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = api.ErrSilent
	}
	return &api.UnreachableError{Socket: s.socket, Err: err}
}
