//go:build linux

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/rs/zerolog"
)

// TestPanic: the caller of a request that panics gets an internal error, and the log one line
// with the stack. A reply that was begun is cut off.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, Options{Ground: registry.Ground{Log: zerolog.New(&log)}})
	for name, x := range map[string]struct {
		answer answer
		aborts bool
	}{
		"at once": {answer: func(http.ResponseWriter, *http.Request, access.Caller) error { panic("lngtest-panic") }},
		"begun": {aborts: true, answer: func(w http.ResponseWriter, _ *http.Request, _ access.Caller) error {
			w.WriteHeader(http.StatusOK)
			panic("lngtest-panic")
		}},
		"in the body": {aborts: true, answer: func(w http.ResponseWriter, _ *http.Request, _ access.Caller) error {
			w.Write([]byte("{"))
			panic("lngtest-panic")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			rec := httptest.NewRecorder()
			aborted := false
			func() {
				defer func() {
					err, _ := recover().(error)
					aborted = errors.Is(err, http.ErrAbortHandler)
				}()
				s.serve(x.answer).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/lngtest", nil).WithContext(s.caller(t.Context(), 1001)))
			}()
			if aborted != x.aborts {
				t.Errorf("aborted: %v", aborted)
			}
			var d api.ErrorDocument
			if err := json.Unmarshal(rec.Body.Bytes(), &d); !x.aborts &&
				(err != nil || rec.Code != http.StatusInternalServerError || d.Error.Code != api.CodeInternal || strings.Contains(d.Error.Message, "lngtest")) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			var line struct{ Level, Panic, Stack, Method, Path string }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != "error" || line.Panic != "lngtest-panic" ||
				!strings.Contains(line.Stack, "httpapi.TestPanic") || line.Method != http.MethodGet || line.Path != "/lngtest" {
				t.Errorf("%v: %s", err, &log)
			}
		})
	}
}
