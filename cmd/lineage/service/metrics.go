//go:build linux

package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// maxConns is how many open connections metrics serve; the others wait.
const maxConns = 64

// Metrics serves GET /metrics, and nothing else.
type Metrics struct {
	net.Listener
	httpd http.Server
}

// ListenMetrics binds the address on which metrics are served. An answer takes answerIn at most.
func ListenMetrics(
	ctx context.Context, address string, scrape http.HandlerFunc, answerIn time.Duration, log zerolog.Logger,
) (*Metrics, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	log.Info().Str("address", ln.Addr().String()).Msg("serving metrics")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", scrape)
	return &Metrics{ln, http.Server{
		Handler: mux, ReadTimeout: answerIn, WriteTimeout: 6 * answerIn,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 4 << 10,
	}}, nil
}

// Serve serves until ctx is done. The loop that accepts connections calls ConnState, and waits for room there.
func (m *Metrics) Serve(ctx context.Context) error {
	room := make(chan struct{}, maxConns)
	m.httpd.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			room <- struct{}{}
		case http.StateClosed:
			<-room
		}
	}
	stop := context.AfterFunc(ctx, func() { m.httpd.Close() })
	defer stop()
	if err := m.httpd.Serve(m.Listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
