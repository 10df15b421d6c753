//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/branch"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/leaks"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/daemon/plan"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/selfcheck"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/daemon/watch"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// limits bound what a caller can make the daemon spend.
type limits struct {
	send      time.Duration // to send headers, and a body
	stall     time.Duration // a stream's reader may take nothing
	heartbeat time.Duration
	flush     time.Duration // events are gathered before they are sent
	access.Limits
}

var defaultLimits = limits{
	send: 5 * time.Second, stall: 30 * time.Second, heartbeat: 15 * time.Second, flush: 5 * time.Millisecond,
	// All the sessions that one may have nested in it can be asked for at once.
	Limits: access.Limits{Conns: 2048, UIDConns: 512, MemberConns: registry.MaxNested, Rate: 200, Burst: 4 * registry.MaxNested},
}

// server answers the API.
type server struct {
	kernel      kernel
	enforcer    *enforcer.Enforcer
	registry    *registry.Registry
	proc        procfs.FS
	holds       *resources.Reader
	plans       *plan.Planner
	branches    *branch.Branches
	access      *access.Access
	audit       auditLog
	recorder    *history.Recorder
	archive     *history.Archive
	find        *lookup.Finder
	clock       registry.Clock
	log         zerolog.Logger
	limits      limits
	version     string
	bootID      string
	ephemeral   bool
	pid         int
	started     time.Time
	rules       *rules.Policy
	hup         <-chan os.Signal // asks for the policy to be read again
	manager     *instance.Manager
	alone       *instance.PIDFile
	privileges  privileges
	self        selfProtection
	selfCheck   *selfcheck.Check
	feed        *watch.Feed
	ring        *recent.Ring
	steward     *rules.Steward
	attribution *attribution.Attribution
	growth      leaks.Growth
	lines       stream.Lines
	events      *stream.Events
	metrics     http.Handler
	exporter    *metrics.Exporter

	stopping chan struct{}     // closed when streams have to end
	stop     func(unload bool) // begins to stop; may be called often
	endOwner func()
}

type connKey struct{}

// httpServer wires connections to their peers. net/http reads headers up to
// MaxHeaderBytes and 4 KiB of slack: 8 KiB in all.
func (s *server) httpServer() *http.Server {
	return &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: s.limits.send,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    4 << 10,
		ErrorLog:          logging.HTTP(s.log),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, access.Of(nc))
		},
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.access.Leave(access.Of(nc))
			}
		},
	}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, r := range s.routes() {
		mux.Handle(pattern, s.serve(r.answer))
	}
	mux.Handle("/", s.serve(func(_ http.ResponseWriter, r *http.Request, _ access.Caller) error {
		return api.NewError(api.CodeNotFound, fmt.Sprintf("no route %s %s", r.Method, r.URL.Path), "")
	}))
	return mux
}

func (s *server) serve(a answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderVersion, s.version)
		w.Header().Set(api.HeaderAPI, strconv.Itoa(api.Major))
		c, err := s.admit(r)
		if err == nil {
			err = a(w, r, c)
		}
		if err != nil {
			s.fail(w, err)
		}
	})
}

// admit says who is calling.
func (s *server) admit(r *http.Request) (access.Caller, error) {
	conn, ok := r.Context().Value(connKey{}).(*access.Connection)
	if !ok {
		return access.Caller{}, api.NewError(api.CodeDenied, "the caller is unknown", "")
	}
	return s.access.Admit(conn)
}

// fail sends the reply that belongs to an error.
func (s *server) fail(w http.ResponseWriter, err error) {
	var e *api.Error
	var refusal *enforcer.Refusal
	switch {
	case errors.As(err, &e):
	case errors.As(err, &refusal):
		e = refusalError(refusal)
	case errors.Is(err, registry.ErrStopping):
		e = api.NewError(api.CodeStopping, "the daemon is stopping", "try again")
	case errors.Is(err, tracer.ErrNotFound):
		e = api.NewError(api.CodeNotFound, err.Error(), "")
	default:
		s.log.Error().Err(err).Msg("request failed")
		e = api.NewError(api.CodeInternal, err.Error(), "see the daemon's log")
	}
	if e.Code == api.CodeTooMany {
		w.Header().Set("Retry-After", "1")
	}
	if e.Code == api.CodeTooLarge || e.Code == api.CodeTooMany {
		w.Header().Set("Connection", "close")
	}
	if err := reply(w, e.Status(), api.ErrorDocument{Head: api.NewHead("error"), Error: e}); err != nil {
		s.log.Error().Err(err).Msg("refusal not sent")
	}
}

func refusalError(r *enforcer.Refusal) *api.Error {
	switch {
	case errors.Is(r, enforcer.ErrGuarded):
		return api.NewError(api.CodeGuarded, r.Error()+"; nothing was sent", "")
	case errors.Is(r, enforcer.ErrIdentity):
		return api.NewError(api.CodeIdentity, r.Error()+"; nothing was sent", "")
	}
	return api.NewError(api.CodeInternal, r.Error()+"; nothing was sent", "try again")
}

// reply sends a document.
func reply(w http.ResponseWriter, status int, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	// Who does not want the reply any more does not get it.
	w.Write(append(body, '\n'))
	return nil
}
