//go:build linux

package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// maxConns is how many open connections metrics have; the others wait to be accepted.
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

// Serve serves until ctx is done.
func (m *Metrics) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { m.httpd.Close() })
	defer stop()
	if err := m.httpd.Serve(&narrow{m.Listener, make(chan struct{}, maxConns)}); !errors.Is(err,
		http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// narrow is a listener with a limit of open connections.
type narrow struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room first: a connection that waits to be accepted costs
// nothing.
func (n *narrow) Accept() (net.Conn, error) {
	n.room <- struct{}{}
	c, err := n.Listener.Accept()
	if err != nil {
		<-n.room
		return nil, err
	}
	return &narrowConn{Conn: c, leave: sync.OnceFunc(func() { <-n.room })}, nil
}

type narrowConn struct {
	net.Conn
	leave func()
}

func (c *narrowConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
