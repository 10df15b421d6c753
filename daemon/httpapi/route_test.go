//go:build linux

package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// newServer is a server without a daemon. Its callers are one process: they may send 100 requests a
// second, and get two large replies at once.
func newServer(t *testing.T, o Options) *Server {
	k := kerneltest.New()
	k.Add(23, 1, "lngtest-caller")
	o.Access = access.New(access.Options{
		Kernel: k, Proc: procfs.FS(t.TempDir()), Clock: k.Now, Limits: access.Limits{Rate: 100, Burst: 100, Large: 2},
		Audit: func(access.AuditRecord) {}, Mode: func() string { return "observe" }, Log: zerolog.Nop(),
	})
	return New(o)
}

// caller has the connection of a caller of a uid.
func (s *Server) caller(ctx context.Context, uid uint32) context.Context {
	return WithConnection(ctx, s.o.Access.Identify(access.Peer{PID: 23, UID: uid, PIDFD: -1}))
}

func (s *Server) ask(t *testing.T, a answer, method string, uid uint32) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.serve(a).ServeHTTP(rec, httptest.NewRequest(method, "/lngtest", nil).WithContext(s.caller(t.Context(), uid)))
	return rec
}

// TestForgottenDecision: a reply without a decision about its verb is not sent, and an
// answer about the host is not reached without one.
func TestForgottenDecision(t *testing.T) {
	s := newServer(t, Options{})
	secret := func(out http.ResponseWriter) error { return reply(out, http.StatusOK, api.NewHead("secret")) }
	ask := func(rt route) int {
		rec := s.ask(t, rt.answer, http.MethodGet, 1001)
		if rec.Code != http.StatusOK && strings.Contains(rec.Body.String(), "secret") {
			t.Errorf("sent %s", rec.Body)
		}
		return rec.Code
	}
	for name, x := range map[string]struct {
		answer handler[url.Values]
		status int
	}{
		"none": {func(out http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
			return secret(out)
		}, http.StatusInternalServerError},
		"of a read": {func(out http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
			access.Decide(c, access.Read, c.Scope())
			return secret(out)
		}, http.StatusInternalServerError},
		"of an end": {func(out http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
			access.Decide(c, access.End, c.Scope())
			return secret(out)
		}, http.StatusOK},
		"an error": {func(_ http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
			return lookup.Foreign(c)
		}, http.StatusBadRequest},
	} {
		if status := ask(onTarget(params(), x.answer, access.End)); status != x.status {
			t.Errorf("%s: status %d", name, status)
		}
	}
	reached := onHost(s.o.Access, access.Manage, "daemon", params(), func(out http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
		t.Error("reached")
		return secret(out)
	})
	require.Equal(t, ask(reached), http.StatusForbidden)
}

// TestLargeReplies: a caller gets few large replies at once. The next one waits for its turn,
// not forever, and holds up neither other callers nor root.
func TestLargeReplies(t *testing.T) {
	s := newServer(t, Options{})
	started, held := make(chan struct{}, 9), make(chan struct{})
	defer close(held)
	rt := large(s.o.Access, onEach(params(), func(out http.ResponseWriter, r *http.Request, _ access.Caller, _ url.Values) error {
		started <- struct{}{}
		if r.Method == http.MethodPost {
			<-held
		}
		return reply(out, http.StatusOK, api.NewHead("large"))
	}, access.Read))
	ask := func(method string, uid uint32) int { return s.ask(t, rt.answer, method, uid).Code }
	for range 2 {
		go ask(http.MethodPost, 1001)
		<-started
	}
	if status := ask(http.MethodGet, 1001); status != http.StatusTooManyRequests {
		t.Errorf("the third at once: status %d", status)
	}
	for _, uid := range []uint32{0, 1002} {
		if status := ask(http.MethodGet, uid); status != http.StatusOK {
			t.Errorf("uid %d: status %d", uid, status)
		}
	}
	waiting := make(chan int)
	go func() { waiting <- ask(http.MethodGet, 1001) }()
	held <- struct{}{} // one of the two ends
	if status := <-waiting; status != http.StatusOK {
		t.Errorf("after the first ended: status %d", status)
	}
}

// TestTurns: a route whose reply has no bound of its own has a turn, and so has a receipt. A new route is one of these, or says here
// why it is not.
func TestTurns(t *testing.T) {
	bounded := map[string]string{
		"GET /v1/version": "", "GET /v1/status": "", "GET /metrics": "", // the daemon
		"POST /v1/sessions": "", "GET /v1/sessions/{s}": "", "POST /v1/keep": "", // one session
		"POST /v1/sessions/{s}/pause": "", "POST /v1/sessions/{s}/resume": "", "POST /v1/marks": "", "POST /v1/processes/{ref}/kill": "",
		"GET /v1/sessions/{s}/report": "receipt", "POST /v1/sessions/{s}/end": "receipt", // below
		"POST /v1/processes/{ref}/end": "no processes", "POST /v1/commands": "no reports",
		"GET /v1/events": "a stream", "GET /v1/watch": "a stream",
		"POST /v1/daemon/stop": "", "GET /v1/policy": "", "GET /v1/policy/explain": "", "POST /v1/policy/reload": "", "POST /v1/policy/resume": "", // root's policy
	}
	s := newServer(t, Options{})
	c := access.Caller{UID: 1001}
	for range 2 {
		_, err := s.o.Access.Turn(t.Context(), c)
		require.NoError(t, err)
	}
	routes := s.routes()
	routes["a receipt"] = onEach(params(), func(w http.ResponseWriter, r *http.Request, c access.Caller, _ url.Values) error {
		return (*acting)(&s.o).receipt(w, r, c, access.Read, nil)
	}, access.Read)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for pattern, rt := range routes {
		if _, ok := bounded[pattern]; ok {
			continue
		}
		err := rt.answer(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(gone), c)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeTooMany {
			t.Errorf("%s: %v, want a turn", pattern, err)
		}
	}
}
