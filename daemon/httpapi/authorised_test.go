//go:build linux

package httpapi_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestRoutesAreAuthorised calls all routes as callers for which access says that they
// may not. TARGET and REF are the session and the member that they ask about. Of the session they learn no more than
// of none.
func TestRoutesAreAuthorised(t *testing.T) {
	requests := map[string]struct {
		about      string // host, of which a member learns nothing; open; target, or the items of a list
		path, body string
	}{
		"GET /v1/version":               {"open", "/v1/version", ""},
		"GET /v1/status":                {"open", "/v1/status", ""},
		"GET /v1/sessions":              {"items", "/v1/sessions?state=all", ""},
		"POST /v1/sessions":             {"open", "/v1/sessions", `{"root":{"pid":300}}`},
		"GET /v1/sessions/{s}":          {"target", "/v1/sessions/TARGET", ""},
		"GET /v1/sessions/{s}/tree":     {"target", "/v1/sessions/TARGET/tree", ""},
		"GET /v1/sessions/{s}/report":   {"target", "/v1/sessions/TARGET/report", ""},
		"POST /v1/marks":                {"target", "/v1/marks", `{"phase":"begin","id":"x","agent":REF}`},
		"POST /v1/keep":                 {"target", "/v1/keep", `{"refs":[REF],"reason":"r","until":"2999-01-02T15:04:05Z"}`},
		"POST /v1/sessions/{s}/end":     {"target", "/v1/sessions/TARGET/end", `{"now":true}`},
		"POST /v1/sessions/{s}/pause":   {"target", "/v1/sessions/TARGET/pause", ""},
		"POST /v1/sessions/{s}/resume":  {"target", "/v1/sessions/TARGET/resume", ""},
		"POST /v1/sessions/{s}/plan":    {"target", "/v1/sessions/TARGET/plan", ""},
		"GET /v1/processes/{ref}":       {"target", "/v1/processes/101", ""},
		"GET /v1/why":                   {"target", "/v1/why?ref=101", ""},
		"GET /v1/orphans":               {"items", "/v1/orphans", ""},
		"GET /v1/leaks":                 {"items", "/v1/leaks", ""},
		"GET /v1/events":                {"target", "/v1/events?session=TARGET", ""},
		"GET /v1/history":               {"host", "/v1/history", ""},
		"GET /v1/watch":                 {"own", "/v1/watch", ""},
		"POST /v1/daemon/stop":          {"host", "/v1/daemon/stop", ""},
		"POST /v1/halt":                 {"host", "/v1/halt", `{"mode":"off"}`},
		"GET /metrics":                  {"host", "/metrics", ""},
		"GET /v1/policy":                {"host", "/v1/policy", ""},
		"GET /v1/policy/explain":        {"host", "/v1/policy/explain?ref=101", ""},
		"POST /v1/policy/reload":        {"host", "/v1/policy/reload", ""},
		"POST /v1/policy/resume":        {"host", "/v1/policy/resume", ""},
		"POST /v1/processes/{ref}/kill": {"target", "/v1/processes/MEMBER/kill", `{"signal":"KILL"}`},
		"POST /v1/processes/{ref}/end":  {"target", "/v1/processes/MEMBER/end", `{"now":true}`},
		"POST /v1/processes/{ref}/plan": {"target", "/v1/processes/MEMBER/plan", ""},
		"POST /v1/commands":             {"host", "/v1/commands", `{"command":"","signatures":[]}`},
		"GET /v1/commands/{id}":         {"host", "/v1/commands/x", ""},
	}
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "lngtest-target"})
	w.Fork(100, 101, 1000, "lngtest-child")
	other := w.Session("user", 200, api.NewSession{})
	ref := api.Ref{PID: 101, StartNS: api.U64(w.K.Proc(101).Identity.Start)}
	refText := `{"pid":101,"start_ns":"` + strings.Split(ref.String(), "@")[1] + `"}`
	routes := w.Service.API.Routes()
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		t.Run(pattern, func(t *testing.T) {
			x, ok := requests[pattern]
			if !ok {
				t.Fatal("this test has no request for it")
			}
			if len(routes[pattern]) == 0 {
				t.Fatal("it declares no verb")
			}
			verb := routes[pattern][0]
			path := strings.NewReplacer("TARGET", s.ID, "MEMBER", ref.String()).Replace(x.path)
			body := strings.ReplaceAll(x.body, "REF", refText)
			method, _, _ := strings.Cut(pattern, " ")
			for who, c := range map[string]access.Caller{
				"119": {Lost: true}, "else": {UID: 1001}, "200": {UID: 1000, Member: w.ID(other.ID)},
			} {
				scope := access.Scope{UID: c.UID}
				switch x.about {
				case "host", "open":
				case "own":
					scope = c.Scope()
				default:
					scope = access.Scope{UID: 1000, Chain: []tracer.SessionID{w.ID(s.ID)}}
				}
				if access.Decide(c, verb, scope).Allow {
					if x.about == "host" && c.Member != 0 {
						t.Errorf("a member may %v", verb)
					}
					continue
				}
				a := w.Do(who, method, path, body)
				a.T = t
				switch named := strings.Contains(x.path, "TARGET"); {
				case x.about != "items" && (!named || c.Lost):
					a.Refused(api.CodeDenied)
				case named:
					a.Refused(api.CodeNotFound)
				case a.Status != http.StatusOK || strings.Contains(string(a.Body), s.ID):
					t.Errorf("%s: status %d, %s", who, a.Status, a.Body)
				}
				none := w.Do(who, method, strings.ReplaceAll(x.path, "TARGET", "nosuch"), body)
				for _, word := range []string{s.ID, s.Name} {
					a := w.Do(who, method, strings.ReplaceAll(x.path, "TARGET", word), body)
					if none.Status != a.Status || string(none.Body) != strings.ReplaceAll(string(a.Body), word, "nosuch") && x.path != path {
						t.Errorf("%s of %s: %s\nnone: %s", who, word, a.Body, none.Body)
					}
				}
			}
		})
	}
	if sent := w.K.Sent(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}
	if all, _ := w.K.Sessions(); len(all) != 2 {
		t.Errorf("sessions %+v", all)
	}
}

// TestRemote: what a link passes on is answered on these routes only; a new route is not among them.
func TestRemote(t *testing.T) {
	w := daemontest.New(t)
	remote := strings.Fields(`GET/v1/status GET/v1/sessions GET/v1/sessions/{s} GET/v1/sessions/{s}/tree GET/v1/sessions/{s}/report GET/v1/processes/{ref}
		GET/v1/why GET/v1/orphans GET/v1/leaks GET/v1/history POST/v1/commands GET/v1/commands/{id}`)
	for pattern := range w.Service.API.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://lineage"+path, nil)
		require.NoError(t, err)
		req.Header.Set(api.HeaderRemote, "1")
		resp, err := w.Client("119").Do(req) // has lost its identity, and may do nothing
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err, resp.Body.Close())
		if passed := !strings.Contains(string(text), "is not for other hosts"); passed != slices.Contains(remote, method+path) {
			t.Errorf("%s: %d %s", pattern, resp.StatusCode, text)
		}
	}
}
