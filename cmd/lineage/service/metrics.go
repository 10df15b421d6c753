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

// ListenMetrics binds the address on which metrics are served.
func ListenMetrics(ctx context.Context, address string, log zerolog.Logger) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	log.Info().Str("address", ln.Addr().String()).Msg("serving metrics")
	return ln, nil
}

// ServeMetrics serves GET /metrics, and nothing else, until ctx is done. An answer takes answerIn at most.
func ServeMetrics(ctx context.Context, ln net.Listener, scrape http.HandlerFunc, answerIn time.Duration) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", scrape)
	httpd := &http.Server{
		Handler: mux, ReadTimeout: answerIn, WriteTimeout: 6 * answerIn, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 4 << 10,
	}
	stop := context.AfterFunc(ctx, func() { httpd.Close() })
	defer stop()
	if err := httpd.Serve(&narrow{ln, make(chan struct{}, maxConns)}); !errors.Is(err, http.ErrServerClosed) {
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
