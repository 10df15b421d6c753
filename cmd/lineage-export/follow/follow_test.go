//go:build linux

package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// daemon is a fake made of a list of events: what the ring still has, and what the history has.
type daemon struct {
	*apitest.Client
	boot    string
	events  []api.Event // of this boot; an event's number is its index plus one
	past    []api.Event // of a previous boot
	present []api.Event // of the snapshot
	ring    int         // the first number that the ring still has
	kept    int         // the last number that the history has
	added   chan struct{}
	beats   bool // it sends heartbeats
	reads   int  // how many streams began
}

func newDaemon(t *testing.T) *daemon {
	boot, err := bootID()
	require.NoError(t, err)
	d := &daemon{boot: boot, ring: 1, added: make(chan struct{})}
	d.Client = &apitest.Client{Has: apitest.Has{
		Sessions: []api.Session{{ID: "aaaaaa", Name: "web", Started: new(time.Now())}}, Status: &api.Status{Level: 4}, Policy: hiding("hush"),
	}, On: apitest.On{Events: d.stream}}
	return d
}

// hiding is a policy by which a word is a secret.
func hiding(word string) *api.Policy {
	return &api.Policy{Items: []api.PolicyValue{{Key: "redact.0", Value: word}}}
}

// forget makes the ring begin at a number, and the history end at one.
func (d *daemon) forget(ring, kept int) {
	d.Lock()
	defer d.Unlock()
	d.ring, d.kept = ring, kept
}

// add adds events, each some ms after the previous one.
func (d *daemon) add(change ...func(*api.Event)) {
	d.Lock()
	defer d.Unlock()
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
	d.Lock()
	defer d.Unlock()
	switch n := after + 1; {
	case n > len(d.events):
		return nil, d.added
	case n < d.ring && n > d.kept:
		return &api.Event{Head: api.Head{Kind: "event"}, Type: "lost", Where: "reader", LostFrom: api.U64(n),
			LostTo: api.U64(d.ring - 1), Count: uint64(d.ring - n)}, nil
	default:
		e := d.events[n-1]
		if e.Process != nil {
			e.Process = new(*e.Process) // the follower changes it
		}
		return &e, nil
	}
}

func (d *daemon) stream(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error {
	d.Lock()
	d.reads++
	past, at := d.past, len(d.events)
	d.Unlock()
	if q.Snapshot {
		for _, e := range append([]api.Event{{Head: api.Head{Kind: "recording"}, BootID: d.boot}}, d.present...) {
			if err := each(&e); err != nil {
				return err
			}
		}
	}
	if q.From != 0 {
		at = int(q.From) - 1
	}
	if !q.Since.IsZero() {
		at = 0
		for _, e := range past {
			if e.Time.Before(q.Since) {
				continue
			}
			if err := each(&e); err != nil {
				return err
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
				e = &api.Event{Head: api.Head{Kind: "heartbeat"}, TimeNS: boottime()}
			case <-ctx.Done():
				return ctx.Err()
			}
		} else if at++; e.Where == "reader" {
			at = int(e.LostTo)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

type list struct {
	mu      sync.Mutex
	err     error
	failed  int // batches
	ids     map[string]int
	records []*Record
}

func (l *list) Name() string { return "list" }
func (l *list) Close() error { return nil }
func (l *list) Deliver(_ context.Context, batch []*Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		l.failed++
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
		if r.Kind == api.EventExit {
			all = append(all, r.Process().PID)
		}
	}
	return all
}

// tries is how often the sink failed.
func (l *list) tries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *list) kinds() (all []Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		all = append(all, r.Kind)
	}
	return all
}

// once checks that no record came twice.
func once(t *testing.T, l *list) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.ids {
		if n != 1 {
			t.Errorf("record %s came %d times", id, n)
		}
	}
}

// follower runs a follower until stop, and waits until it reads.
func follower(t *testing.T, d *daemon, l *list, dir string) (f *Follower, stop func()) {
	t.Helper()
	store, err := OpenStore(dir)
	require.NoError(t, err)
	f = &Follower{Sink: l, Store: store, Host: &Host{ID: "h"}, Log: zerolog.Nop(),
		Dial: func(context.Context) (api.Client, error) { return d, nil }}
	require.NoError(t, f.Open())
	before := d.streams()
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
	require.Eventually(t, "reader", func() bool { return d.streams() > before })
	return f, stop
}

func (d *daemon) streams() int {
	d.Lock()
	defer d.Unlock()
	return d.reads
}

// TestOutage: while the sink is down, nothing is read. Afterwards everything arrives, once.
func TestOutage(t *testing.T) {
	d, l := newDaemon(t), &list{}
	follower(t, d, l, t.TempDir())
	d.add(fork(10), exit(10))
	require.Eventually(t, "record", func() bool { return len(l.pids()) == 1 })
	l.fail(errors.New("down"))
	for i := range 50 {
		d.add(fork(20+i), exit(20+i))
	}
	require.Eventually(t, "second try", func() bool { return l.tries() > 1 })
	d.forget(100, 102) // the ring has moved on meanwhile
	l.fail(nil)
	require.Eventually(t, "rest", func() bool { return len(l.pids()) == 51 })
	once(t, l)
	if slices.Contains(l.kinds(), api.EventLost) {
		t.Error("something is lost")
	}
}

// TestHistoryBehind: the follower waits for events that the ring has overwritten and the
// history does not have yet. They are not lost.
func TestHistoryBehind(t *testing.T) {
	d, l := newDaemon(t), &list{}
	follower(t, d, l, t.TempDir())
	d.add(fork(10), exit(10))
	require.Eventually(t, "record", func() bool { return len(l.pids()) == 1 })
	d.forget(7, 3)
	d.add(fork(11), exit(11), fork(12), exit(12), fork(13), exit(13))
	require.Eventually(t, "wait", func() bool { return d.streams() > 2 })
	d.forget(7, 8)
	require.Eventually(t, "rest", func() bool { return len(l.pids()) == 4 })
	if slices.Contains(l.kinds(), api.EventLost) {
		t.Error("something is lost")
	}
}

// TestRestart: after a restart events continue from the cursor, and processes that ran
// before are known.
func TestRestart(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	_, stop := follower(t, d, l, dir)
	d.add(fork(10))
	require.Eventually(t, "record", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.records) == 1 })
	stop()
	d.present = []api.Event{{Head: api.Head{Kind: "process"}, Process: &api.Process{Ref: api.Ref{PID: 10, StartNS: 10},
		Exe: "/bin/agent", Argv: []string{"agent", "hush"}}}}
	d.add(func(e *api.Event) {
		fork(11)(e)
		e.Process.Creator = &api.Ref{PID: 10, StartNS: 10}
	}, exit(11))
	again := &list{}
	follower(t, d, again, dir)
	require.Eventually(t, "records", func() bool { return len(again.pids()) == 1 })
	by := again.records[0].Known.Ancestry(again.records[0].Process())
	if len(again.records) != 2 || len(by) != 1 || by[0].Exe != "/bin/agent" {
		t.Fatalf("%d records, by %+v", len(again.records), by)
	}
	require.Equal(t, strings.Join(by[0].Argv, " "), "agent [redacted]")
}

// TestFirst: what happens between the first connection and a restart is not missed, even if
// no event came before the restart.
func TestFirst(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	_, stop := follower(t, d, l, dir)
	require.Eventually(t, "cursor", func() bool { _, err := os.Stat(filepath.Join(dir, "list.cursor")); return err == nil })
	stop()
	time.Sleep(20 * time.Millisecond) // more than the slack of two CPUs
	d.add(fork(10), exit(10))
	follower(t, d, l, dir)
	require.Eventually(t, "record", func() bool { return len(l.pids()) == 1 })
}

// TestFirstDown: a receiver that was down since the first start gets everything from that
// start on, even if the exporter was killed meanwhile.
func TestFirstDown(t *testing.T) {
	d, l, dir := newDaemon(t), &list{err: errors.New("down")}, t.TempDir()
	_, stop := follower(t, d, l, dir)
	time.Sleep(20 * time.Millisecond) // more than the slack of two CPUs
	d.add(fork(10), exit(10))
	require.Eventually(t, "try", func() bool { return l.tries() > 0 })
	stop()
	l.fail(nil)
	follower(t, d, l, dir)
	require.Eventually(t, "record", func() bool { return len(l.pids()) == 1 })
}

// next takes the first of some errors, nil if none is left.
func next(all *[]error) (err error) {
	if len(*all) > 0 {
		err, *all = (*all)[0], (*all)[1:]
	}
	return err
}

// TestUnanswered: records are complete although the daemon was restarted while it was asked.
func TestUnanswered(t *testing.T) {
	d, l := newDaemon(t), &list{}
	fails := []error{&api.UnreachableError{Err: io.EOF}, api.NewError(api.CodeStopping, "the daemon is stopping", "")}
	ofSession, ofReport := slices.Clone(fails), slices.Clone(fails)
	d.On.Session = func(id string) (*api.Session, error) {
		if err := next(&ofSession); err != nil {
			return nil, err
		}
		return d.Find(id)
	}
	d.On.Report = func(context.Context, string, time.Duration) (*api.Report, error) {
		return &api.Report{Verdict: api.VerdictClean}, next(&ofReport)
	}
	follower(t, d, l, t.TempDir())
	d.add(fork(10), exit(10), func(e *api.Event) { e.Type, e.State, e.Reason = "session", api.StateEnded, "end" })
	require.Eventually(t, "records", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.records) == 3 })
	for _, r := range l.records {
		if r.Session.Name != "web" || r.Kind == End && r.Report == nil {
			t.Errorf("%s: session %q, report %v", r.Kind, r.Session.Name, r.Report)
		}
	}
}

// TestLost: events that neither ring nor history has become one record.
func TestLost(t *testing.T) {
	d, l := newDaemon(t), &list{}
	follower(t, d, l, t.TempDir())
	d.add(fork(10), func(e *api.Event) { e.Type, e.Where, e.Count, e.Session = "lost", "ring", 5, "" }, exit(10))
	require.Eventually(t, "exit", func() bool { return len(l.pids()) == 1 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.records[1].Kind != api.EventLost || l.records[1].Event.Count != 5 {
		t.Errorf("%+v", l.records[1])
	}
}

// TestState: state that cannot be used is an error before anything is read; a failed write
// is one line of the log, and stops nothing.
func TestState(t *testing.T) {
	dir := t.TempDir()
	store, err := OpenStore(dir)
	require.NoError(t, err)
	_, err = OpenStore(dir)
	require.Contains(t, fmt.Sprint(err), "another process uses it")
	for _, text := range []string{"", "{", `{"schema":"lineage-export/2"}`, `{"schema":"lineage-export/1","boot":"x"}`,
		`{"schema":"lineage-export/1","boot":"x","seq":"y"}`} {
		os.WriteFile(filepath.Join(dir, "list.cursor"), []byte(text), 0o600)
		f := &Follower{Sink: &list{}, Store: store}
		if err := f.Open(); err == nil || !strings.Contains(err.Error(), "invalid cursor "+dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
	d, l := newDaemon(t), &list{}
	gone := filepath.Join(dir, "state")
	f, _ := follower(t, d, l, gone)
	os.RemoveAll(gone)
	d.add(fork(10), exit(10))
	require.Eventually(t, "record", func() bool { return len(l.pids()) == 1 })
	var log strings.Builder
	f = &Follower{Sink: l, Store: f.Store, Log: zerolog.New(&log), acked: place{Boot: d.boot}}
	f.save(true)
	f.save(true)
	require.Equal(t, strings.Count(log.String(), "the cursor cannot be written"), 1)
}
