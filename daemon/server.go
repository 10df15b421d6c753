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
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/leaks"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/selfcheck"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// limits bound what a caller can make the daemon spend.
type limits struct {
	send        time.Duration // to send headers, and a body
	stall       time.Duration // a stream's reader may take nothing
	heartbeat   time.Duration
	flush       time.Duration // events are gathered before they are sent
	conns       int           // a 16th is left to root, another 4th to callers that are in no session
	uidConns    int           // of one uid but root: in sessions, and outside of them
	memberConns int           // of the members of one session
	rate, burst int           // requests a second of one uid but root, or of the members of one session
}

var defaultLimits = limits{
	send: 5 * time.Second, stall: 30 * time.Second, heartbeat: 15 * time.Second, flush: 5 * time.Millisecond,
	// All the sessions that one may have nested in it can be asked for at once.
	conns: 2048, uidConns: 512, memberConns: registry.MaxNested, rate: 200, burst: 4 * registry.MaxNested,
}

// rooms are how many connections there may be of root, of other callers that
// are in no session, and of members, each with those before it.
func (l limits) rooms() (root, outside, members int) {
	return l.conns, l.conns - l.conns/16, l.conns - l.conns/16 - l.conns/4
}

// fitting leaves half of the descriptors to what is not a connection, which has
// two: its own and its peer's.
func (l limits) fitting() limits {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		l.conns = int(min(uint64(l.conns), files.Cur/4))
	}
	return l
}

// server answers the API.
type server struct {
	kernel       kernel
	enforcer     *enforcer.Enforcer
	registry     *registry.Registry
	proc         procfs.FS
	holds        *resources.Reader
	plans        *plans
	reading      chan struct{} // taken while a request reads all of procfs
	pidNamespace string
	group        int // gid of those who may read everything, -1: none
	audit        auditLog
	recorder     *history.Recorder
	refusals     *audit.Refusals
	clock        registry.Clock
	log          zerolog.Logger
	limits       limits
	version      string
	bootID       string
	ephemeral    bool
	pid          int
	started      time.Time
	peerOf       func(net.Conn) (peer, error)
	rules        *rules.Policy
	hup          <-chan os.Signal // asks for the policy to be read again
	manager      *instance.Manager
	alone        *instance.PIDFile
	privileges   privileges
	self         selfProtection
	selfCheck    *selfcheck.Check
	feed         *feed
	ring         *recent.Ring
	steward      *rules.Steward
	attribution  *attribution.Attribution
	growth       leaks.Growth
	encoded      encodedEvents
	turns        turns
	presenting   sync.Mutex // held while a reader gets the present processes
	replaying    sync.Mutex // held while one gets a block of the history
	tally        tally
	metrics      http.Handler
	exporter     *metrics.Exporter

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
		ErrorLog:          logging.HTTP(s.log),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, nc.(*peerConn).peer)
		},
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.conns.leave(nc.(*peerConn).peer)
			}
		},
	}
}

// answer handles one request of a caller; an error is its reply.
type answer func(w http.ResponseWriter, r *http.Request, c access.Caller) error

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, a := range s.routes() {
		mux.Handle(pattern, s.serve(a))
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

// admit says who is calling, and refuses a caller that asks too much.
func (s *server) admit(r *http.Request) (access.Caller, error) {
	conn, ok := r.Context().Value(connKey{}).(*connection)
	if !ok {
		return access.Caller{}, api.NewError(api.CodeDenied, "the caller is unknown", "")
	}
	if conn.over {
		return access.Caller{}, api.NewError(api.CodeTooMany, "too many connections", "close some")
	}
	c := s.judge(conn)
	if !s.conns.allow(c, s.clock.Monotonic()) {
		s.tally.refused(verbLimit)
		of := fmt.Sprintf("uid %d", c.UID)
		if c.Member != 0 {
			of = fmt.Sprintf("session %v", c.Member)
		}
		return c, api.NewError(api.CodeTooMany, "too many requests of "+of, "ask again in a second")
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
func (s *server) refuse(c access.Caller, v access.Verb, what string, d access.Decision) error {
	e := s.log.Warn().Str(logging.KeyVerb, v.String()).Str(logging.KeyName, what).Str(logging.KeyWhy, d.Why).
		Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, c.ID.PID)
	if c.Member != 0 {
		e = e.Str(logging.KeyMember, c.Member.String())
	}
	e.Msg("refused")
	s.refused(c, v, what, d.Why)
	if what != "" {
		what = " " + what
	}
	return api.NewError(api.CodeDenied, fmt.Sprintf("%v%s: not permitted: %s", v, what, d.Why), d.Hint)
}
