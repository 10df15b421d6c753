//go:build linux

package access_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// TestEveryChangeIsRecorded: verbs that change something but end nothing, and refusals
// of each.
func TestEveryChangeIsRecorded(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{})
	daemontest.Into[api.Policy](w.Do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	daemontest.Into[api.Policy](w.Do("root", "POST", "/v1/policy/resume", nil), http.StatusOK)
	for _, path := range []string{"/v1/policy/reload", "/v1/policy/resume", "/v1/daemon/stop"} {
		w.Do("100", "POST", path, nil).Refused(api.CodeDenied)
	}
	w.Add(200, daemontest.Shell, 1000, "lngtest-other")
	daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 200}}), http.StatusCreated)
	w.Halt()
	log := w.Audit()
	for want, n := range map[string]int{
		`"decision":"done","reason":"policy reload"`: 1, `"decision":"done","reason":"policy resume"`: 1,
		`"verb":"create","decision":"done"`: 1, `"verb":"adopt","decision":"done"`: 1,
		`"verb":"manage","decision":"refused"`: 3,
	} {
		if got := strings.Count(log, want); got != n {
			t.Errorf("%d times %s, want %d:\n%s", got, want, n, log)
		}
	}
}

// TestUnreadableNamespace: a daemon that cannot read a caller's namespace says why, not that the caller
// is in a container.
func TestUnreadableNamespace(t *testing.T) {
	w := daemontest.New(t)
	away := w.Do("away", "GET", "/v1/why?ref=20", nil).Refused(api.CodePIDNamespace)
	if !strings.Contains(away.Message, "another PID namespace") || strings.Contains(away.Hint, "/proc") {
		t.Errorf("%+v", away)
	}
	hidden := w.Do("hidden", "GET", "/v1/why?ref=20", nil).Refused(api.CodePIDNamespace)
	if !strings.Contains(hidden.Message, "cannot be read: read fdinfo: lngtest") || !strings.Contains(hidden.Hint, "/proc") {
		t.Errorf("%+v", hidden)
	}
}
