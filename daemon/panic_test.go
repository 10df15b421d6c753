//go:build linux

package daemon_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// breaking is a kernel of which one method panics once it is armed.
type breaking struct {
	*kerneltest.Kernel
	armed atomic.Value // the method
}

func (k *breaking) maybe(method string) {
	if k.armed.Load() == method {
		panic("lngtest-panic")
	}
}

func (k *breaking) Lookup(pid uint32) (tracer.Entry, error) {
	if pid == daemontest.Root {
		k.maybe("Lookup")
	}
	return k.Kernel.Lookup(pid)
}

func (k *breaking) Session(id tracer.SessionID) (tracer.SessionInfo, error) {
	if bytes.Contains(debug.Stack(), []byte("httpapi.")) { // jobs ask, too
		k.maybe("Session")
	}
	return k.Kernel.Session(id)
}

func (k *breaking) Create(spec tracer.SessionSpec) (tracer.SessionID, error) {
	k.maybe("Create")
	return k.Kernel.Create(spec)
}

func (k *breaking) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	k.maybe("Snapshot")
	return k.Kernel.Snapshot(id, each)
}

func (k *breaking) Identify(pid uint32) (tracer.Identity, error) {
	if pid == daemontest.Root {
		k.maybe("Identify")
	}
	return k.Kernel.Identify(pid)
}

func (k *breaking) Settle(id tracer.SessionID) (tracer.SessionInfo, error) {
	k.maybe("Settle")
	return k.Kernel.Settle(id)
}

func (k *breaking) Read(ev *tracer.Event) error {
	err := k.Kernel.Read(ev)
	k.maybe("Read")
	return err
}

// TestPanics: wherever the daemon panics, the process lives. A request fails, and the daemon
// continues; or it stops in order, and the next one has the same session.
func TestPanics(t *testing.T) {
	for method, x := range map[string]struct {
		method, path string // of the request during which it panics
		body         any
		status       int // 0: any answer, or none
		stops        bool
	}{
		"Lookup":   {"GET", "/v1/sessions", nil, 0, false},                                                                  // who connects
		"Session":  {"GET", "/v1/sessions", nil, http.StatusInternalServerError, false},                                     // a read
		"Create":   {"POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 200}}, http.StatusInternalServerError, true}, // an update
		"Settle":   {"POST", "/v1/sessions/lngtest/end", api.EndRequest{}, 0, true},                                         // the enforcer's goroutine
		"Identify": {"GET", "/v1/version", nil, 0, false},
		"Read":     {"GET", "/v1/sessions", nil, 0, true}, // the goroutine that reads events
	} {
		t.Run(method, func(t *testing.T) {
			k := &breaking{}
			w := daemontest.New(t, func(w *daemontest.Daemon) {
				k.Kernel = w.K
				w.Host.Open = func(tracer.Options) (daemon.Kernel, error) { w.K.Reopen(); return k, nil }
			})
			s := w.Session("root", 100, api.NewSession{Name: "lngtest", GraceMS: daemontest.MS(60_000)})
			w.Add(200, daemontest.Root, 0, "lngtest-other")
			w.K.AllRead()
			k.armed.Store(method)
			if x.status == 0 {
				body, _ := json.Marshal(x.body)
				req, err := http.NewRequestWithContext(t.Context(), x.method, "http://lineage"+x.path, bytes.NewReader(body))
				require.NoError(t, err)
				if resp, err := w.Client("root").Do(req); err == nil {
					resp.Body.Close()
				}
			} else if e := daemontest.Into[api.ErrorDocument](w.Do("root", x.method, x.path, x.body),
				x.status).Error; e.Code != api.CodeInternal || strings.Contains(e.Message, "lngtest") {
				t.Errorf("%+v", e)
			}
			if x.stops {
				if err := <-w.Done; err == nil || !strings.Contains(err.Error(), "lngtest-panic") {
					t.Errorf("stopped: %v", err)
				}
			}
			k.armed.Store("")
			if x.stops {
				w.Start()
			}
			daemontest.Get[api.Session](w, "root", "/v1/sessions/"+s.ID)
			w.Halt()
		})
	}
}
