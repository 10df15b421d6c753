//go:build linux

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/cgroup"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/signed"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

type Options struct {
	registry.Ground
	Access      *access.Access
	Enforcer    *enforcer.Enforcer
	Find        *lookup.Finder
	Archive     *history.Archive
	Acts        *acts.Acts
	Marks       *attribution.Marks
	Groups      *cgroup.Groups
	Holdings    *holdings.Holdings
	Events      *stream.Events
	Feed        *stream.Feed
	Status      *status.Status
	Metrics     http.Handler
	Rules       *rules.Policy
	Steward     *rules.Steward
	Attribution *attribution.Attribution
	Keeper      *rules.Keeper
	Signed      *signed.Orders
	Version     string
	Send        time.Duration     // that a caller has to send headers, and a body
	Stall       time.Duration     // that a caller may read nothing of a reply; 0: forever
	Managed     bool              // a service manager runs the daemon
	Stopping    <-chan struct{}   // closed when the daemon stops
	Stop        func(unload bool) // begins to stop it
}

type Server struct {
	o    Options
	http *http.Server
}

// New makes the API of a daemon. net/http reads headers up to MaxHeaderBytes and 4 KiB
// of slack: 8 KiB in all.
func New(o Options) *Server {
	s := &Server{o: o}
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: o.Send,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    4 << 10,
		ErrorLog:          system.HTTPLog(o.Log),
		// OPTIONS * has no route either.
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return WithConnection(ctx, access.Of(nc))
		},
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				o.Access.Leave(access.Of(nc))
			}
		},
	}
	return s
}

// Serve answers the callers of a listener until Shutdown.
func (s *Server) Serve(ln *net.UnixListener) error {
	if err := s.http.Serve(s.o.Access.Listen(ln)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Shutdown waits for the answers under way until ctx is done.
func (s *Server) Shutdown(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

type connKey struct{}

// WithConnection is the context of the requests that come over a connection.
func WithConnection(ctx context.Context, c *access.Connection) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Handler answers requests whose context has a connection.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, r := range s.routes() {
		if !r.remote {
			r.answer = here(r.answer)
		}
		mux.Handle(pattern, s.serve(r.answer))
	}
	none := s.serve(func(w http.ResponseWriter, r *http.Request, _ access.Caller) error {
		if allow := methods(mux, r); allow != nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			return api.Errorf(api.CodeMethod,
				"%s %s: this route has %s only", r.Method, r.URL.Path, strings.Join(allow, ", "))
		}
		return api.Errorf(api.CodeNotFound, "no route %s %s", r.Method, r.URL.Path)
	})
	mux.Handle("/", none)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "*" { // the mux would answer without a document
			none.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) serve(a answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &impatient{ResponseWriter: w, stall: s.o.Stall}
		out.Header().Set(api.HeaderVersion, s.o.Version)
		out.Header().Set(api.HeaderAPI, strconv.Itoa(api.Major))
		var err error
		p := procfs.CatchPanic(func() {
			var c access.Caller
			if c, err = s.admit(r); err == nil {
				err = a(out, r, c)
			}
		})
		if p != nil {
			s.o.Log.Error().Str(system.KeyMethod, r.Method).Str(system.KeyPath, r.URL.Path).
				Any(system.KeyPanic, p.Value).Bytes(system.KeyStack, p.Stack).Msg("panic in a request")
			if out.begun {
				panic(http.ErrAbortHandler) // the caller sees that the reply is not whole
			}
			err = api.NewError(api.CodeInternal, "internal error: the request could not be answered",
				"see the daemon's log")
		}
		if err != nil {
			s.fail(out, err)
		}
	})
}

func (s *Server) admit(r *http.Request) (access.Caller, error) {
	conn, ok := r.Context().Value(connKey{}).(*access.Connection)
	if !ok {
		return access.Caller{}, api.NewError(api.CodeDenied, "the caller is unknown", "")
	}
	return s.o.Access.Admit(conn)
}

func (s *Server) fail(w http.ResponseWriter, err error) {
	var e *api.Error
	var refusal *enforcer.Refusal
	switch {
	case errors.As(err, &e):
	case errors.As(err, &refusal):
		e = acts.RefusalError(refusal)
	case errors.Is(err, registry.ErrStopping):
		e = api.NewError(api.CodeStopping, "the daemon is stopping", "try again")
	case errors.Is(err, tracer.ErrNotFound):
		e = api.NewError(api.CodeNotFound, err.Error(), "")
	default:
		s.o.Log.Error().Err(err).Msg("request failed")
		e = api.NewError(api.CodeInternal, err.Error(), "see the daemon's log")
	}
	if e.Code == api.CodeTooMany {
		w.Header().Set("Retry-After", "1")
	}
	if e.Code == api.CodeTooLarge || e.Code == api.CodeTooMany {
		w.Header().Set("Connection", "close")
	}
	if err := reply(w, e.Status(), api.ErrorDocument{Head: api.NewHead("error"),
		Error: e}); err != nil {
		s.o.Log.Error().Err(err).Msg("refusal not sent")
	}
}

func reply(w http.ResponseWriter, status int, doc any) error {
	var body bytes.Buffer // Marshal would copy it twice
	if err := json.NewEncoder(&body).Encode(doc); err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	// A caller that has disconnected gets no reply.
	w.Write(body.Bytes())
	return nil
}

func send(w http.ResponseWriter, status int, doc any, err error) error {
	if err != nil {
		return err
	}
	return reply(w, status, doc)
}

// methods are those that the path of a request has a route for.
func methods(mux *http.ServeMux, r *http.Request) (all []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if _, pattern := mux.Handler(&http.Request{Method: method,
			Host: r.Host, URL: r.URL}); pattern != "/" {
			all = append(all, method)
		}
	}
	return all
}
