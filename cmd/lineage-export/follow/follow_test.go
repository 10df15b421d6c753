//go:build linux

package follow

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// daemon is a fake made of a list of events: what the ring still has, and what the history has.
type daemon struct {
	t      *testing.T
	socket string
	boot   string

	mu      sync.Mutex
	events  []api.Event // of this boot; an event's number is its index plus one
	past    []api.Event // of a previous boot
	ring    int         // the first number that the ring still has
	kept    int         // the last number that the history has
	added   chan struct{}
	streams []string // queries

	known func() *api.Session // aaaaaa; nil: it has none
	live  bool                // it is in the list
	beats bool                // it sends heartbeats

	secret string         // by its policy
	fails  map[string]int // how many requests for a path still fail: they break off, and the last one finds a daemon that stops
}

func newDaemon(t *testing.T) *daemon {
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, socket: filepath.Join(t.TempDir(), "s"), boot: boot, ring: 1, added: make(chan struct{}), live: true, fails: make(map[string]int), secret: "hush",
		known: func() *api.Session { return &api.Session{ID: "aaaaaa", Name: "web", Started: new(time.Now())} }}
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	doc := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(v) }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/version", doc(api.Version{API: api.Major}))
	mux.HandleFunc("/v1/policy", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(api.Policy{Items: []api.PolicyValue{{Key: "redact.0", Value: d.secret}}})
	})
	mux.HandleFunc("/v1/status", doc(api.Status{Level: 4}))
	mux.HandleFunc("/v1/orphans", doc(api.Orphans{}))
	mux.HandleFunc("/v1/sessions", d.sessions)
	mux.HandleFunc("/v1/sessions/aaaaaa", d.session)
	mux.HandleFunc("/v1/sessions/aaaaaa/tree", doc(api.Tree{}))
	mux.HandleFunc("/v1/sessions/aaaaaa/report", doc(api.Report{Session: "aaaaaa", Verdict: api.VerdictClean}))
	mux.HandleFunc("/v1/events", d.stream)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.fails[r.URL.Path]--
		left := d.fails[r.URL.Path]
		d.mu.Unlock()
		w.Header().Set(api.HeaderAPI, strconv.Itoa(api.Major))
		if left > 0 {
			panic(http.ErrAbortHandler)
		} else if left == 0 {
			stopping := api.NewError(api.CodeStopping, "the daemon is stopping", "")
			w.WriteHeader(stopping.Status())
			json.NewEncoder(w).Encode(api.ErrorDocument{Head: api.NewHead("error"), Error: stopping})
			return
		}
		mux.ServeHTTP(w, r)
	})}
	s.ErrorLog = log.New(io.Discard, "", 0)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return d
}

// add adds events, each some ms after the previous one.
func (d *daemon) add(change ...func(*api.Event)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range change {
		n := len(d.events) + 1
		e := api.Event{Head: api.Head{Kind: "event"}, Seq: api.U64(n), TimeNS: boottime(), Time: new(time.Now()), Session: "aaaaaa"}
		f(&e)
		d.events = append(d.events, e)
		time.Sleep(time.Millisecond) // events have different times
	}
	close(d.added)
	d.added = make(chan struct{})
}

func fork(pid int) func(*api.Event) {
	return func(e *api.Event) {
		e.Type, e.Process = "fork", &api.Process{Ref: api.Ref{PID: pid, StartNS: api.U64(pid)}, Comm: "x", Session: "aaaaaa", Creator: &api.Ref{PID: 1, StartNS: 1}}
	}
}

func exit(pid int) func(*api.Event) {
	return func(e *api.Event) {
		e.Type, e.Process = "exit", &api.Process{Ref: api.Ref{PID: pid, StartNS: api.U64(pid)}, Session: "aaaaaa", ExitCode: new(0)}
	}
}

// next is the event after a number: from the history while it has that event, else from the ring.
func (d *daemon) next(after int) (e *api.Event, wait chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n := after + 1; {
	case n > len(d.events):
		return nil, d.added
	case n < d.ring && n > d.kept:
		return &api.Event{Head: api.Head{Kind: "event"}, Type: "lost", Where: "reader", LostFrom: api.U64(n), LostTo: api.U64(d.ring - 1), Count: uint64(d.ring - n)}, nil
	default:
		e := d.events[n-1]
		return &e, nil
	}
}

func (d *daemon) stream(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	d.mu.Lock()
	d.streams = append(d.streams, q.Encode())
	past, at := d.past, len(d.events)
	d.mu.Unlock()
	send := func(e any) {
		b, _ := json.Marshal(e)
		w.Write(append(b, '\n'))
		w.(http.Flusher).Flush()
	}
	w.WriteHeader(http.StatusOK)
	if q.Get("snapshot") != "" {
		send(api.Event{Head: api.Head{Kind: "recording"}, BootID: d.boot})
	}
	if from := q.Get("from"); from != "" {
		n, _ := strconv.Atoi(from)
		at = n - 1
	}
	if since, err := time.Parse(time.RFC3339Nano, q.Get("since")); err == nil {
		at = 0
		for i := range past {
			if !past[i].Time.Before(since) {
				send(&past[i])
			}
		}
	}
	for {
		e, wait := d.next(at)
		if e == nil {
			beat := make(<-chan time.Time)
			if d.beats {
				beat = time.After(50 * time.Millisecond)
			}
			select {
			case <-wait:
				continue
			case <-beat:
				send(api.Event{Head: api.Head{Kind: "heartbeat"}, TimeNS: boottime()})
				continue
			case <-r.Context().Done():
				return
			}
		}
		if at++; e.Type == "lost" && e.Where == "reader" {
			at = int(e.LostTo)
		}
		send(e)
	}
}

// list is a sink that may fail.
type list struct {
	mu      sync.Mutex
	err     error
	batches int
	ids     map[string]int
	records []*record.Record
}

func (l *list) Name() string    { return "list" }
func (l *list) Refused() uint64 { return 0 }
func (l *list) Close() error    { return nil }
func (l *list) Deliver(_ context.Context, batch []*record.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches++
	if l.err != nil {
		return l.err
	}
	if l.ids == nil {
		l.ids = make(map[string]int)
	}
	for _, r := range batch {
		l.ids[r.ID]++
	}
	l.records = append(l.records, batch...)
	return nil
}

func (l *list) fail(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
}

// pids are the processes whose exits were delivered.
func (l *list) pids() (all []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Kind == record.Exit {
			all = append(all, r.Process.Image.PID)
		}
	}
	return all
}

// follower runs a follower until stop.
func follower(t *testing.T, d *daemon, l *list, dir string) (f *Follower, stop func()) {
	t.Helper()
	store, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	f = &Follower{Sink: l, Store: store, Host: &record.Host{ID: "h"}, Log: zerolog.Nop(),
		Dial: func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, d.socket) }}
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			<-done
			store.Close()
		})
	}
	t.Cleanup(stop)
	return f, stop
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}

func (d *daemon) read() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.streams) > 0
}

// TestOutage: while the sink is down, nothing is read. Afterwards everything arrives, once.
func TestOutage(t *testing.T) {
	d, l := newDaemon(t), &list{}
	f, _ := follower(t, d, l, t.TempDir())
	until(t, "reader", d.read)
	d.add(fork(10), exit(10))
	until(t, "record", func() bool { return len(l.pids()) == 1 })
	l.fail(errors.New("down"))
	for i := range 50 {
		d.add(fork(20+i), exit(20+i))
	}
	until(t, "second try", func() bool { return f.Stats.Failed.Load() > 1 })
	d.mu.Lock()
	d.ring, d.kept = 100, 102 // the ring has moved on meanwhile
	d.mu.Unlock()
	l.fail(nil)
	until(t, "rest", func() bool { return len(l.pids()) == 51 })
	for id, n := range l.ids {
		if n != 1 {
			t.Errorf("record %s came %d times", id, n)
		}
	}
	if f.Stats.Lost.Load() != 0 {
		t.Error("something is lost")
	}
}

// TestHistoryBehind: the follower waits for events that the ring has overwritten and the
// history does not have yet. They are not lost.
func TestHistoryBehind(t *testing.T) {
	d, l := newDaemon(t), &list{}
	f, _ := follower(t, d, l, t.TempDir())
	until(t, "reader", d.read)
	d.add(fork(10), exit(10))
	until(t, "record", func() bool { return len(l.pids()) == 1 })
	d.mu.Lock()
	d.ring, d.kept = 7, 3
	d.mu.Unlock()
	d.add(fork(11), exit(11), fork(12), exit(12), fork(13), exit(13))
	until(t, "wait", func() bool { return f.Stats.Behind.Load() > 1 })
	d.mu.Lock()
	d.kept = 8
	d.mu.Unlock()
	until(t, "rest", func() bool { return len(l.pids()) == 4 })
	if f.Stats.Lost.Load() != 0 {
		t.Error("something is lost")
	}
}

// TestRestart: after a restart events continue from the cursor, and processes that ran
// before are known.
func TestRestart(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	_, stop := follower(t, d, l, dir)
	until(t, "reader", d.read)
	d.add(fork(10), func(e *api.Event) {
		fork(10)(e)
		e.Type, e.Process.Exe, e.Process.Argv = "exec", "/bin/agent", []string{"agent", "hush"}
	})
	until(t, "records", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.records) == 2 })
	stop()
	d.add(func(e *api.Event) {
		fork(11)(e)
		e.Process.Creator = &api.Ref{PID: 10, StartNS: 10}
	}, exit(11))
	again := &list{}
	follower(t, d, again, dir)
	until(t, "records", func() bool { return len(again.pids()) == 1 })
	p := again.records[1].Process
	if len(again.records) != 2 || p.Image.Creator == nil || p.Image.Creator.Exe != "/bin/agent" {
		t.Fatalf("%d records, of %+v", len(again.records), p.Image)
	}
	if argv := strings.Join(p.Image.Creator.Argv, " "); argv != "agent [redacted]" {
		t.Errorf("the policy's secret: %s", argv)
	}
}

// TestFirst: what happens between the first connection and a restart is not missed, even if
// no event came before the restart.
func TestFirst(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	_, stop := follower(t, d, l, dir)
	until(t, "cursor", func() bool { _, err := os.Stat(filepath.Join(dir, "list.cursor")); return err == nil })
	stop()
	time.Sleep(20 * time.Millisecond) // more than the slack of two CPUs
	d.add(fork(10), exit(10))
	follower(t, d, l, dir)
	until(t, "record", func() bool { return len(l.pids()) == 1 })
}

// TestFirstDown: a receiver that was down since the first start gets everything from that
// start on, even if the exporter was killed meanwhile.
func TestFirstDown(t *testing.T) {
	d, l, dir := newDaemon(t), &list{err: errors.New("down")}, t.TempDir()
	f, stop := follower(t, d, l, dir)
	until(t, "reader", d.read)
	time.Sleep(20 * time.Millisecond) // more than the slack of two CPUs
	d.add(fork(10), exit(10))
	until(t, "try", func() bool { return f.Stats.Failed.Load() > 0 })
	stop()
	l.fail(nil)
	follower(t, d, l, dir)
	until(t, "record", func() bool { return len(l.pids()) == 1 })
}

// TestUnanswered: records are complete although the daemon was restarted while it was asked.
func TestUnanswered(t *testing.T) {
	d, l := newDaemon(t), &list{}
	d.fails["/v1/sessions/aaaaaa"] = 3 // net/http may try twice
	d.fails["/v1/sessions/aaaaaa/report"] = 3
	follower(t, d, l, t.TempDir())
	until(t, "reader", d.read)
	d.add(fork(10), exit(10), func(e *api.Event) { e.Type, e.State, e.Reason = "session", api.StateEnded, "end" })
	until(t, "records", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.records) == 3 })
	for _, r := range l.records {
		if r.Session.Name != "web" || r.Kind == record.End && r.Report == nil {
			t.Errorf("%s: session %q, report %v", r.Kind, r.Session.Name, r.Report)
		}
	}
}

// TestLost: events that neither ring nor history has become one record.
func TestLost(t *testing.T) {
	d, l := newDaemon(t), &list{}
	f, _ := follower(t, d, l, t.TempDir())
	until(t, "reader", d.read)
	d.add(fork(10), func(e *api.Event) { e.Type, e.Where, e.Count, e.Session = "lost", "ring", 5, "" }, exit(10))
	// Both are after the delivery: the count, and the records of a later batch.
	until(t, "count and exit", func() bool { return f.Stats.Lost.Load() == 5 && len(l.pids()) == 1 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.records[1].Kind != record.Lost || l.records[1].Event.Count != 5 {
		t.Errorf("%+v", l.records[1])
	}
}

// TestState: state that cannot be used is an error before anything is read; a failed write
// is counted.
func TestState(t *testing.T) {
	dir := t.TempDir()
	store, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "another exporter uses it") {
		t.Error(err)
	}
	for _, text := range []string{"", "{", `{"schema":"lineage-export/2"}`, `{"schema":"lineage-export/1","boot":"x"}`, `{"schema":"lineage-export/1","boot":"x","seq":"y"}`} {
		os.WriteFile(filepath.Join(dir, "list.cursor"), []byte(text), 0o600)
		f := &Follower{Sink: &list{}, Store: store}
		if err := f.Open(); err == nil || !strings.Contains(err.Error(), "invalid cursor "+dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
	d, l := newDaemon(t), &list{}
	gone := filepath.Join(dir, "state")
	f, _ := follower(t, d, l, gone)
	until(t, "reader", d.read)
	os.RemoveAll(gone)
	d.add(fork(10), exit(10))
	until(t, "record", func() bool { return len(l.pids()) == 1 && f.Stats.Unwritten.Load() > 0 })
}
