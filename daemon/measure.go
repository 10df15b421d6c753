//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// tally is what requests count. It may be used from any goroutine.
type tally struct {
	dropped atomic.Uint64 // readers that took nothing
	missed  atomic.Uint64 // events that readers were too slow for

	mu       sync.Mutex
	refusals map[string]uint64 // by verb
}

// verbLimit stands for requests that were too many, whatever they asked for.
const verbLimit = "limit"

func (t *tally) refused(verb string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refusals == nil {
		t.refusals = make(map[string]uint64)
	}
	t.refusals[verb]++
}

func (t *tally) refusedSoFar() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.refusals)
}

// measureAge is how old a snapshot may be: scrapes that come together share it.
const measureAge = 100 * time.Millisecond

// gauge answers scrapes, however many come at once, with one question to the
// owner.
type gauge struct {
	server *server

	mu   sync.Mutex
	last *metrics.Snapshot // never changed again
	at   time.Time
}

func (g *gauge) read() (*metrics.Snapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && time.Since(g.at) < measureAge {
		return g.last, nil
	}
	s, err := g.server.measure()
	if err != nil {
		return nil, err
	}
	g.last, g.at = s, time.Now()
	return s, nil
}

// measure asks the owner for what it counted, and adds what others did.
func (s *server) measure() (*metrics.Snapshot, error) {
	f := s.kernel.Features()
	m := &metrics.Snapshot{
		Version: s.version, ABI: f.ABI, Level: f.Level, BreakerOpen: s.rules.breakerState().Open,
		Refusals: s.tally.refusedSoFar(), ReadersDropped: s.tally.dropped.Load(),
		Sessions:     map[string]int{"active": 0, "ending": 0, "condemned": 0, "ended": 0},
		Events:       make(map[string]uint64),
		HelperErrors: make(map[metrics.Helper]uint64),
		Resyncs:      make(map[string]uint64),
		Ends:         make(map[metrics.End]uint64),
	}
	if r := s.selfCheck.result(); r != nil {
		m.SelfCheck = &r.OK
	}
	var counters map[string]uint64
	err := s.owner.do(func() {
		o := s.owner
		m.Degraded = len(s.degradations())
		for _, x := range o.sessions {
			m.Sessions[x.state()]++
			if !x.closed && x.info.Parent == 0 { // nested members count in their ancestors
				m.Processes += int(max(x.info.Live, 0))
			}
		}
		for _, t := range [...]tracer.EventType{
			tracer.EventBirth, tracer.EventExec, tracer.EventExit, tracer.EventReparent, tracer.EventReaped, tracer.EventSession,
		} {
			m.Events[eventNames[t]] = o.meter.events[t]
		}
		m.Lost = map[string]uint64{"ring": o.lost, "reader": s.tally.missed.Load()}
		// Those are replaced, never changed.
		counters, m.RecursionMisses = o.counters, o.misses
		for _, cause := range resyncCauses {
			m.Resyncs[string(cause)] = o.meter.resyncs[cause]
		}
		for e, n := range o.meter.ends {
			m.Ends[metrics.End{Reason: e.reason, Verdict: e.verdict}] = n
		}
		m.EndSeconds = o.meter.took.histogram()
	})
	for _, e := range tracer.HelperErrors(counters) {
		m.HelperErrors[metrics.Helper{Program: e.Program, Helper: e.Helper}] = e.Count
	}
	return m, err
}

func (s *spread) histogram() metrics.Histogram {
	h := metrics.Histogram{Count: s.count, Sum: s.sum, Buckets: make(map[float64]uint64, len(endBuckets))}
	for i, bound := range endBuckets {
		h.Buckets[bound] = s.buckets[i]
	}
	return h
}

// getMetrics is /metrics on the socket.
func (s *server) getMetrics(w http.ResponseWriter, r *http.Request, c caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	if d := decide(c, verbMetrics, target{}); !d.allow {
		return s.refuse(c, verbMetrics, "", d)
	}
	s.metrics.ServeHTTP(w, r)
	return nil
}

// Of the address that the policy gives.
const (
	metricsRetry = 5 * time.Second // its interface may come up later than we
	metricsConns = 64
)

// exporter serves /metrics, and nothing else, on an address of the policy.
// Whoever can connect may read it: it names nobody.
type exporter struct {
	address string // empty: nowhere
	handler http.Handler
	limits  limits
	log     zerolog.Logger

	failing atomic.Pointer[error]
}

// run serves until ctx is done. An address that cannot be had is loud, tried
// again, and stops nothing.
func (x *exporter) run(ctx context.Context) {
	if x.address == "" {
		return
	}
	for {
		err := x.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if x.failing.Swap(&err) == nil {
			x.log.Error().Err(err).Str(logging.KeyAddress, x.address).Msg("metrics not served")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(metricsRetry):
		}
	}
}

func (x *exporter) serve(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", x.address)
	if err != nil {
		return err
	}
	x.failing.Store(nil)
	x.log.Info().Stringer(logging.KeyAddress, ln.Addr()).Msg("serving metrics")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", x.handler)
	httpd := &http.Server{
		Handler: mux, ReadTimeout: x.limits.send, WriteTimeout: x.limits.stall, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 4 << 10, ErrorLog: logging.HTTP(x.log),
	}
	stop := context.AfterFunc(ctx, func() { httpd.Close() })
	defer stop()
	if err := httpd.Serve(&narrow{ln, make(chan struct{}, metricsConns)}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

func (x *exporter) degraded() []string {
	if err := x.failing.Load(); err != nil {
		return []string{fmt.Sprintf("metrics are not served on %s: %v", x.address, *err)}
	}
	return nil
}

// narrow is a listener that has only so many connections at a time.
type narrow struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room first: who is not accepted costs nothing of ours.
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
