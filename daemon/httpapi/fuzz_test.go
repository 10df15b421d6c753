//go:build linux

package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/httpapi"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// FuzzRequest: every request, of a user or a member, gets one whole document of ours;
// no signal is sent to a process that the caller may not signal, and the daemon
// continues. Streams are cut off at once.
func FuzzRequest(f *testing.F) {
	for _, r := range []struct {
		member               bool
		method, target, body string
	}{
		{false, "GET", "/v1/version", ""},
		{false, "GET", "/v1/sessions?state=all&name=x", ""},
		{false, "POST", "/v1/sessions", `{"root":{"pid":110,"start_ns":"1"},"name":"x","grace_ms":5}`},
		{true, "POST", "/v1/sessions/lngtest/end", `{"now":true}`},
		{true, "POST", "/v1/processes/300@1/kill", `{"signal":"KILL"}`},
		{false, "POST", "/v1/sessions/lngtest/end", `{"grace_ms":-1,"plan_token":"x"}`},
		{false, "GET", "/v1/sessions/lngtest/report?wait=1ns", ""},
		{false, "GET", "/v1/processes/100@18446744073709551615", ""},
		{true, "GET", "/v1/why?port=80&proto=tcp", ""},
		{false, "GET", "/v1/why?path=%2f%00", ""},
		{false, "POST", "/v1/policy/reload", "[]"},
		{true, "GET", "/v1/history?limit=-1&next=%ff", ""},
		{false, "GET", "//v1/../v1/version", ""},
	} {
		f.Add(r.member, r.method, r.target, r.body)
	}
	f.Fuzz(func(t *testing.T, member bool, method, target, body string) {
		if path, _, _ := strings.Cut(target, "?"); strings.Contains(path, "/events") || strings.Contains(path, "/watch") || strings.Contains(target, "wait") {
			return
		}
		req, err := http.NewRequest(method, "http://lineage"+target, io.NopCloser(strings.NewReader(body)))
		if err != nil {
			return
		}
		var options []daemontest.Option
		if !strings.Contains(target, "history") {
			options = append(options, daemontest.WithoutHistory) // it costs most of the time
		}
		w := daemontest.New(t, options...)
		w.Session("user", 100, api.NewSession{Name: "lngtest"})
		w.Session("else", 300, api.NewSession{})
		other := w.K.Proc(300).Identity
		pid := uint32(daemontest.User)
		if member {
			pid = 100
		}
		c := w.Service.Access.Identify(access.Peer{PID: pid, UID: 1000, GID: 100, PIDFD: -1})
		rec := httptest.NewRecorder()
		w.Service.API.Handler().ServeHTTP(rec, req.WithContext(httpapi.WithConnection(t.Context(), c)))
		switch location := rec.Header().Get("Location"); {
		case location != "": // of net/http, for a path that is not clean
		case rec.Header().Get(api.HeaderAPI) != "1" && rec.Code != http.StatusMethodNotAllowed:
			t.Errorf("%s %q: %d without %s", method, target, rec.Code, api.HeaderAPI)
		case strings.HasPrefix(rec.Header().Get("Content-Type"), "application/json"):
			if !json.Valid(rec.Body.Bytes()) {
				t.Errorf("%s %q: %d %q", method, target, rec.Code, rec.Body)
			}
		}
		if rec.Code == http.StatusInternalServerError {
			t.Errorf("%s %q %q: %s", method, target, body, rec.Body)
		}
		for _, s := range w.K.Sent() {
			if s.To == other || member {
				t.Fatalf("%s %q %q sent %v", method, target, body, s)
			}
		}
		if p := w.K.Proc(300); p == nil || p.Dead || p.Identity != other {
			t.Fatalf("%s %q %q ended another uid's process", method, target, body)
		}
		require.NoError(t, w.Service.Registry.Read(func(v registry.View) {}))
	})
}
