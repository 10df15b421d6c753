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
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/holds"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// limits bound what a caller can make the daemon spend.
type limits struct {
	send        time.Duration // to send headers, and a body
	stall       time.Duration // a stream's reader may take nothing
	heartbeat   time.Duration
	flush       time.Duration // events are gathered before they are sent
	conns       int
	uidConns    int // of one uid but root
	memberConns int // of the members of one session
	memberRate  int // requests a second of the members of one session
}

var defaultLimits = limits{
	send: 5 * time.Second, stall: 30 * time.Second, heartbeat: 15 * time.Second, flush: 5 * time.Millisecond,
	conns: 2048, uidConns: 256, memberConns: 32, memberRate: 50,
}

// server answers the API.
type server struct {
	kernel       kernel
	enforcer     *enforcer.Enforcer
	owner        *owner
	sampler      *sampler
	proc         procfs
	holds        *holds.Reader
	plans        *plans
	reading      chan struct{} // taken while a request reads all of procfs
	me           tracer.Identity
	files        string // the root of the host's files
	pidNamespace string
	group        int // gid of those who may read everything, -1: none
	audit        auditLog
	recorder     *recorder
	refusals     *refusals
	clock        clock
	log          zerolog.Logger
	limits       limits
	version      string
	bootID       string
	ephemeral    bool
	pid          int
	started      time.Time
	peerOf       func(net.Conn) (peer, error)
	rules        *rules
	hup          <-chan os.Signal // asks for the policy to be read again
	manager      *manager
	alone        *serving
	privileges   privileges
	self         selfProtection
	selfCheck    *selfCheck
	feed         *feed
	recent       recent
	turns        turns
	presenting   sync.Mutex // held while a reader gets the present processes
	replaying    sync.Mutex // held while one gets a block of the history
	tally        tally
	metrics      http.Handler
	exporter     *exporter

	conns    *conns
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
		ErrorLog:          httpLog(s.log),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			p, err := s.peerOf(nc.(*documentedConn).Conn)
			if err != nil {
				s.log.Error().Err(err).Msg("peer not read")
				return ctx
			}
			c := s.identify(p)
			s.conns.open(nc, c)
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.conns.close(nc)
			}
		},
	}
}

// answer handles one request of a caller; an error is its reply.
type answer func(w http.ResponseWriter, r *http.Request, c caller) error

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, a := range s.routes() {
		mux.Handle(pattern, s.serve(a))
	}
	mux.Handle("/", s.serve(func(_ http.ResponseWriter, r *http.Request, _ caller) error {
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

// admit says who is calling, and refuses a caller that asks too much.
func (s *server) admit(r *http.Request) (caller, error) {
	conn, ok := r.Context().Value(connKey{}).(*connection)
	if !ok {
		return caller{}, api.NewError(api.CodeDenied, "the caller is unknown", "")
	}
	c := s.judge(conn)
	if conn.over {
		s.tally.refused(verbLimit)
		return c, api.NewError(api.CodeTooMany, "too many connections", "close some")
	}
	if c.member != 0 && !s.conns.allow(c.member, s.clock.monotonic()) {
		s.tally.refused(verbLimit)
		return c, api.NewError(api.CodeTooMany, fmt.Sprintf("too many requests of session %v", c.member), "")
	}
	return c, nil
}

// fail sends the reply that belongs to an error.
func (s *server) fail(w http.ResponseWriter, err error) {
	var e *api.Error
	var refusal *enforcer.Refusal
	switch {
	case errors.As(err, &e):
	case errors.As(err, &refusal):
		e = refusalError(refusal)
	case errors.Is(err, errStopping):
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
	if err := reply(w, e.Status(), api.ErrorDocument{Head: head("error"), Error: e}); err != nil {
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

// refuse is the error of a decision against a caller, noted in the log.
func (s *server) refuse(c caller, v verb, what string, d decision) error {
	e := s.log.Warn().Str(keyVerb, v.String()).Str(keyName, what).Str(keyWhy, d.why).
		Uint32(keyUID, c.uid).Uint32(keyPID, c.id.PID)
	if c.member != 0 {
		e = e.Str(keyMember, c.member.String())
	}
	e.Msg("refused")
	s.refused(c, v, what, d.why)
	if what != "" {
		what = " " + what
	}
	return api.NewError(api.CodeDenied, fmt.Sprintf("%v%s: not permitted: %s", v, what, d.why), d.hint)
}
