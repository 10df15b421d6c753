//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/httpapi"
)

// sendRequests is what lngtest-requests does: it sends requests for some seconds, and prints how
// often it got which answer.
func sendRequests(seconds, seed string) int {
	n, err := strconv.Atoi(seconds)
	state, err2 := strconv.ParseUint(seed, 10, 64)
	if err := errors.Join(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n)*time.Second)
	defer cancel()
	socket := os.Getenv("LINEAGE_SOCKET")
	f := &fuzzer{
		socket: socket, tally: make(map[string]int), routes: slices.Sorted(maps.Keys(httpapi.New(httpapi.Options{}).Routes())),
		client: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}},
	}
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			s := sender{f, rand.New(rand.NewPCG(state, i))}
			for ctx.Err() == nil {
				s.next(ctx)
				time.Sleep(s.up(40 * time.Millisecond)) // 200 requests a second are let in
			}
		})
	}
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if json.NewEncoder(os.Stdout).Encode(f.tally) != nil {
		return 1
	}
	return 0
}

// fuzzer is what the senders of a process share.
type fuzzer struct {
	socket string
	client *http.Client
	routes []string

	mu       sync.Mutex
	tally    map[string]int
	refs     []api.Ref // of our own processes, many of them dead
	sessions []string
}

// count notes an answer, with the request if the daemon is to blame.
func (f *fuzzer) count(answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tally[answer]++
}

// known remembers the last of some values.
func known[T any](f *fuzzer, all *[]T, value T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *all = append(*all, value); len(*all) > 64 {
		*all = (*all)[1:]
	}
}

// sender sends one request after the other.
type sender struct {
	*fuzzer
	*rand.Rand
}

func (s *sender) up(to time.Duration) time.Duration { return time.Duration(s.Int64N(int64(to))) }

func one[T any](s *sender, all ...T) T { return all[s.IntN(len(all))] }

func (s *sender) next(ctx context.Context) {
	switch s.IntN(7) {
	case 0, 1:
		s.race(ctx)
	case 2:
		s.overlap(ctx)
	default:
		method, path, _ := strings.Cut(one(s, s.routes...), " ")
		s.request(ctx, method, path)
	}
}

// child starts a process that exits soon, and has started others.
func (s *sender) child(ctx context.Context) (cmd *exec.Cmd, ref api.Ref) {
	cmd = exec.Command("/bin/sh", "-c", one(s,
		`sleep 0.1`,
		`sleep 0.1 & sleep 0.2`,
		`(sleep 0.2 &); sleep 0.1 & exec sleep 0.3`,
		`for i in 1 2 3; do (exec setsid sleep 0.2) & done; sleep 0.05`,
	))
	if err := cmd.Start(); err != nil {
		s.count("not started")
		return nil, ref
	}
	go func() { _ = cmd.Wait() }() // it is bounded by its sleeps
	p := new(api.Process)
	s.do(ctx, http.MethodGet, fmt.Sprintf("/v1/processes/%d", cmd.Process.Pid), nil, p)
	if p.Ref.PID != 0 {
		known(s.fuzzer, &s.refs, p.Ref)
	}
	return cmd, p.Ref
}

// race sends a request about a process that exits meanwhile.
func (s *sender) race(ctx context.Context) {
	cmd, ref := s.child(ctx)
	if cmd == nil {
		return
	}
	if s.IntN(2) == 0 {
		x := new(api.Session)
		s.do(ctx, http.MethodPost, "/v1/sessions", api.NewSession{Root: api.Ref{PID: ref.PID}, Adopt: s.IntN(2) == 0, GraceMS: new(int64)}, x)
		if x.ID != "" {
			known(s.fuzzer, &s.sessions, x.ID)
		}
	}
	go func(after time.Duration) {
		time.Sleep(after)
		_ = cmd.Process.Kill()
	}(s.up(3 * time.Millisecond))
	time.Sleep(s.up(3 * time.Millisecond))
	end := "/v1/processes/" + ref.String()
	switch s.IntN(6) {
	case 0:
		s.do(ctx, http.MethodPost, "/v1/sessions", api.NewSession{Root: ref, Adopt: s.IntN(2) == 0}, nil)
	case 1:
		s.do(ctx, http.MethodPost, "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref}, Reason: "lngtest", Until: time.Now().Add(time.Second)}, nil)
	case 2:
		s.do(ctx, http.MethodPost, end+"/plan", nil, nil)
	case 3:
		s.do(ctx, http.MethodPost, end+"/kill", api.KillRequest{Signal: "TERM"}, nil)
	default:
		s.do(ctx, http.MethodPost, end+"/end", api.EndRequest{Now: s.IntN(2) == 0}, nil)
	}
}

// overlap ends the branches of a process and of its children at once.
func (s *sender) overlap(ctx context.Context) {
	cmd, ref := s.child(ctx)
	if cmd == nil {
		return
	}
	all := []string{ref.String(), ref.String()}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	for _, pid := range strings.Fields(string(children)) {
		p := new(api.Process)
		if s.do(ctx, http.MethodGet, "/v1/processes/"+pid, nil, p); p.Ref.PID != 0 {
			all = append(all, p.Ref.String())
		}
	}
	var wg sync.WaitGroup
	for _, ref := range all {
		wg.Go(func() { s.do(ctx, http.MethodPost, "/v1/processes/"+ref+"/end", api.EndRequest{Now: true}, nil) })
	}
	wg.Wait()
}

// text is something that a request may have anywhere: valid, or not.
func (s *sender) text() string {
	s.mu.Lock()
	refs, sessions := slices.Clone(s.refs), slices.Clone(s.sessions)
	s.mu.Unlock()
	if len(refs) > 0 && s.IntN(2) == 0 {
		return one(s, refs...).String()
	}
	if len(sessions) > 0 && s.IntN(2) == 0 {
		return one(s, sessions...)
	}
	return one(s, "", "0", "1", "-1", "1@1", "4194305@18446744073709551615", "99999999999999999999", "x", "session", "all", "1ns", "60s",
		"2099-01-01T00:00:00Z", "..", "%00", "\xff", strings.Repeat("a", 300), "KILL", "birth,exec", "true", "/", "/proc/self/exe", "tcp")
}

func (s *sender) request(ctx context.Context, method, route string) {
	path := route
	for _, name := range []string{"{s}", "{ref}"} {
		path = strings.ReplaceAll(path, name, url.PathEscape(s.text()))
	}
	if method == http.MethodGet && s.IntN(2) == 0 {
		q := url.Values{}
		for range s.IntN(3) {
			q.Set(one(s, "session", "since", "until", "limit", "next", "state", "name", "from", "snapshot", "type", "hz", "pid", "ref", "port", "proto",
				"path", "dead", "at", "wait", "all", "x"), s.text())
		}
		path += "?" + q.Encode()
	}
	var body any
	if method == http.MethodPost {
		body = s.body()
	}
	s.do(ctx, method, path, body, nil)
}

// body is one of a random route, with random values; or none.
func (s *sender) body() any {
	ref := api.Ref{PID: s.IntN(3)}
	s.mu.Lock()
	if len(s.refs) > 0 && s.IntN(4) > 0 {
		ref = one(s, s.refs...)
	}
	s.mu.Unlock()
	n := one(s, int64(0), 1, -1, 1000, 1<<62)
	return one[any](s, nil, api.NewSession{Root: ref, Name: s.text(), Adopt: s.IntN(2) == 0, GraceMS: &n, MaxProcesses: int(n % 1000), MaxLifetimeMS: n, IdleMS: n},
		api.EndRequest{Now: s.IntN(2) == 0, PlanToken: s.text()}, api.EndRequest{GraceMS: &n}, api.KillRequest{Signal: s.text()},
		api.KeepRequest{Refs: []api.Ref{ref, ref}, Reason: s.text(), Until: time.Now().Add(time.Duration(n))},
		map[string]any{"x": s.text()}, []int{1}, "x", map[string]any{"root": map[string]any{"pid": s.text()}},
		json.RawMessage(strings.Repeat(`{"root":`, 1000)+"1"+strings.Repeat("}", 1000)))
}

// do sends a request and counts the answer. A stream is cut off after a moment.
func (s *sender) do(ctx context.Context, method, path string, body, into any) {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	wait := 30 * time.Second
	if strings.HasPrefix(path, "/v1/events") || strings.HasPrefix(path, "/v1/watch") || strings.Contains(path, "wait=") {
		wait = s.up(300 * time.Millisecond)
	}
	// A request that is under way when the time is over gets its answer.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, method, "http://lineage"+path, bytes.NewReader(text))
	if err != nil {
		s.count("no request")
		return
	}
	resp, err := s.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
	}
	switch {
	case limited.Err() != nil && wait < time.Second:
		s.count("cut off")
	case err != nil:
		s.count(fmt.Sprintf("broken: %s %s: %v", method, path, err))
	case resp.StatusCode >= 500:
		s.count(fmt.Sprintf("%d %s %s: %s", resp.StatusCode, method, path, text))
	default:
		s.count(strconv.Itoa(resp.StatusCode))
		if into != nil && resp.StatusCode < 300 {
			_ = json.Unmarshal(text, into)
		}
	}
}
