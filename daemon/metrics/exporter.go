//go:build linux

package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/rs/zerolog"
)

// Of the address that the policy gives.
const (
	retryPause = 5 * time.Second // its interface may come up later than the daemon
	maxConns   = 64
)

// Exporter serves /metrics, and nothing else, on an address of the policy. Anyone
// who can connect may read it: it names no process, session or user.
type Exporter struct {
	Address      string // empty: nowhere
	Handler      http.Handler
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	Log          zerolog.Logger

	failing atomic.Pointer[error]
}

// Run serves until ctx is done. An address that cannot be listened on is logged
// and tried again.
func (x *Exporter) Run(ctx context.Context) {
	if x.Address == "" {
		return
	}
	for {
		err := x.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if x.failing.Swap(&err) == nil {
			x.Log.Error().Err(err).Str(logging.KeyAddress, x.Address).Msg("metrics not served")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPause):
		}
	}
}

func (x *Exporter) serve(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", x.Address)
	if err != nil {
		return err
	}
	x.failing.Store(nil)
	x.Log.Info().Stringer(logging.KeyAddress, ln.Addr()).Msg("serving metrics")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", x.Handler)
	httpd := &http.Server{
		Handler: mux, ReadTimeout: x.ReadTimeout, WriteTimeout: x.WriteTimeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 4 << 10, ErrorLog: logging.HTTP(x.Log),
	}
	stop := context.AfterFunc(ctx, func() { httpd.Close() })
	defer stop()
	if err := httpd.Serve(&narrow{ln, make(chan struct{}, maxConns)}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// Degraded says that the metrics are not served, and why.
func (x *Exporter) Degraded() []string {
	if err := x.failing.Load(); err != nil {
		return []string{fmt.Sprintf("metrics are not served on %s: %v", x.Address, *err)}
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
