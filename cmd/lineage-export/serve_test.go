//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// serving starts a daemon whose /metrics are answered by h (nil: none), and a server
// for it with that timeout, and returns the server's URL.
func serving(t *testing.T, h http.HandlerFunc, wait time.Duration) (*daemon, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	if h != nil {
		ln, err := net.Listen("unix", socket)
		require.NoError(t, err)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /metrics", h)
		httpd := &http.Server{Handler: mux}
		go httpd.Serve(ln)
		t.Cleanup(func() { httpd.Close() })
	}
	d := newDaemon(socket, wait)
	m, err := service.ListenMetrics(t.Context(), "127.0.0.1:0", d.scrape, wait, zerolog.Nop())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- m.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-over)
	})
	return d, "http://" + m.Addr().String()
}

func request(t *testing.T, method, url string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "text/plain")
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(body), got.Header
}

// TestServe: serves the daemon's text unchanged, and no other route.
func TestServe(t *testing.T) {
	_, url := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Accept"]) != 1 || len(r.Header["Authorization"]) > 0 {
			t.Errorf("asked with %v", r.Header)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, "lineage_level 4\n")
	}, 12*answerIn)
	code, body, header := request(t, "GET", url+"/metrics")
	if code != 200 || body != "lineage_level 4\n" || header.Get("Content-Type") != "text/plain; version=0.0.4" {
		t.Errorf("%d %q %v", code, body, header)
	}
	for _, path := range []string{"/", "/v1/version", "/v1/status", "/v1/sessions", "/metrics/x", "/debug/pprof/"} {
		if code, _, _ := request(t, "GET", url+path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _, _ := request(t, "POST", url+"/metrics"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
}

// TestDaemonFails: a scrape fails within its time limit and says why. The text of a
// refusal by the daemon is not passed on.
func TestDaemonFails(t *testing.T) {
	for name, tt := range map[string]struct {
		daemon http.HandlerFunc
		want   string
		code   string // of the refusal
	}{
		"none": {nil, "no daemon at", ""},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusForbidden)
		}, "only root and the group lineage may read them", api.CodeDenied},
		"fails": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusInternalServerError)
		}, "500", ""},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "hangs or is stopped", ""},
		"stops in between": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "secret")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "hangs or is stopped", ""},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for _, err := io.WriteString(w, "secret"); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		}, "more than 8388608 bytes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wait := 12 * answerIn
			if tt.want == "hangs or is stopped" {
				wait = time.Second
			}
			s, url := serving(t, tt.daemon, wait)
			code, body, _ := request(t, "GET", url+"/metrics")
			if code != http.StatusBadGateway || !strings.Contains(body, tt.want) || strings.Contains(body, "secret") || strings.Count(body, "\n") != 1 {
				t.Errorf("%d %q", code, body)
			}
			if _, _, err := s.ask(t.Context(), ""); refusal(err) != tt.code {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}

// refusal is the code of a refusal by the daemon; "" if it cannot be reached.
func refusal(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[*api.UnreachableError](err); ok {
		return ""
	}
	return fmt.Sprint(err)
}

// TestManyAtOnce: fifty scrapes are all answered, but the daemon gets only a few at a time.
func TestManyAtOnce(t *testing.T) {
	var now, most atomic.Int32
	_, url := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(20 * time.Millisecond) // time for the other scrapes to come
		io.WriteString(w, "lineage_level 4\n")
	}, 12*answerIn)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if code, body, _ := request(t, "GET", url+"/metrics"); code != 200 {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n < 2 || n > maxAsked {
		t.Errorf("%d at once, want 2 to %d", n, maxAsked)
	}
}
