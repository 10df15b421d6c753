//go:build linux

package status_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

func TestVersionAndStatus(t *testing.T) {
	w := daemontest.New(t)
	a := w.Do("user", "GET", "/v1/version", nil)
	v := daemontest.Into[api.Version](a, http.StatusOK)
	if v.Kind != "version" || v.Schema != api.Schema || v.API != api.Major || v.Version != "9.9.9" || v.Level != 4 || v.Started == nil {
		t.Errorf("%+v", v)
	}
	if a.Header.Get(api.HeaderVersion) != "9.9.9" || a.Header.Get(api.HeaderAPI) != "1" {
		t.Errorf("headers %v", a.Header)
	}
	w.Session("user", 100, api.NewSession{})
	w.K.Count("events", 5)
	w.Look()
	for who, counters := range map[string]bool{"root": true, "reader": true, "user": false, "100": false} {
		s := daemontest.Get[api.Status](w, who, "/v1/status")
		if s.Sessions != 1 || s.Live != 1 || (s.Counters["events"] == 5) != counters {
			t.Errorf("%s: %+v", who, s)
		}
	}
}
