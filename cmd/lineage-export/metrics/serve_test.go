//go:build linux

package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// serving starts a daemon whose /metrics are answered by h (nil: none), and a server
// for it with that timeout, and returns the server's URL.
func serving(t *testing.T, h http.HandlerFunc, wait time.Duration) (*Server, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	if h != nil {
		ln, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /metrics", h)
		httpd := &http.Server{Handler: mux}
		go httpd.Serve(ln)
		t.Cleanup(func() { httpd.Close() })
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(socket)
	s.answerIn = wait
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + ln.Addr().String()
}

func request(t *testing.T, method, url string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/plain")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
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
		is     func(error) bool
	}{
		"none": {nil, "no daemon at", isUnreachable},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusForbidden)
		}, "only root and the group lineage may read them", isDenied},
		"fails": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusInternalServerError)
		}, "500", isUnreachable},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "hangs or is stopped", isUnreachable},
		"stops in between": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "secret")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "hangs or is stopped", isUnreachable},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for _, err := io.WriteString(w, "secret"); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		}, "more than 8388608 bytes", isUnreachable},
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
			if err := s.Check(t.Context()); !tt.is(err) {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}

func isDenied(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == api.CodeDenied
}

func isUnreachable(err error) bool {
	var e *api.UnreachableError
	return errors.As(err, &e)
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
