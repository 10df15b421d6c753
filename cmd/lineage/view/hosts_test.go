package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// remote is the daemon of a host, in memory.
type remote struct {
	apitest.Client
	up   bool
	feed chan *api.Frame // closed: the connection breaks
}

func newRemote(name string, up bool) *remote {
	d := &remote{up: up, feed: make(chan *api.Frame)}
	d.Has = apitest.Has{
		Sessions: []api.Session{{ID: "aaaaaa"}},
		Plan:     &api.Plan{Session: "aaaaaa", Token: "plan-of-" + name},
		Leaks:    &api.Leaks{Items: []api.Leak{{Session: "aaaaaa"}}},
		Events:   []api.Event{{Session: "aaaaaa", Process: &api.Process{Session: "aaaaaa"}}},
	}
	d.On.Watch = d.watch
	return d
}

func (d *remote) watch(ctx context.Context, each func(*api.Frame) error) error {
	d.Lock()
	feed := d.feed
	d.Unlock()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f, ok := <-feed:
			if !ok {
				return errors.New("connection reset")
			}
			if err := each(f); err != nil {
				return err
			}
		}
	}
}

// fleetOf is a view of hosts, and the picture that it gives.
type fleetOf struct {
	t      *testing.T
	client tui.Client
	hosts  map[string]*remote

	mu      sync.Mutex
	picture *picture.Picture
	status  api.WatchStatus
}

func newFleet(t *testing.T, down string, names ...string) *fleetOf {
	t.Helper()
	f := &fleetOf{t: t, hosts: map[string]*remote{}, picture: picture.New()}
	for _, name := range names {
		f.hosts[name] = newRemote(name, name != down)
	}
	dial := func(_ context.Context, name string) (api.Client, error) {
		d := f.hosts[name]
		d.Lock()
		defer d.Unlock()
		if !d.up {
			return nil, errors.New("connection refused")
		}
		return &d.Client, nil
	}
	var err error
	f.client, err = Hosts(names, dial)(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	t.Cleanup(func() { cancel(); <-over })
	go func() {
		defer close(over)
		f.client.Watch(ctx, api.WatchQuery{}, func(frame *api.Frame) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			b := picture.NewBatch()
			b.Add(frame)
			f.picture.Apply(b)
			if frame.Status != nil {
				f.status = *frame.Status
			}
			return nil
		})
	}()
	return f
}

// rows are the sessions with their states and numbers of members, in order.
func (f *fleetOf) rows() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	f.picture.AllSessions(func(r *picture.Row) {
		state := string(r.Session.State)
		if r.Session.EndReason != "" {
			state += ": " + r.Session.EndReason
		}
		all = append(all, fmt.Sprintf("%s %s %d", r.Session.ID, state, r.Session.Live))
	})
	slices.Sort(all)
	return fmt.Sprintf("%s; %d processes, %d live", strings.Join(all, ", "), f.picture.Len(), f.status.Live)
}

func (f *fleetOf) wants(want string) {
	f.t.Helper()
	got := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = f.rows(); got == want {
			return
		}
	}
	f.t.Fatalf("shows %s\nwant  %s", got, want)
}

// snapshot is a session of one process.
func snapshot(pid int, partial bool) *api.Frame {
	ref := api.Ref{PID: pid, StartNS: 5}
	return &api.Frame{Head: api.Head{Kind: "snapshot"}, TimeNS: 7, Partial: partial, Status: &api.WatchStatus{Level: 3, Live: 1},
		Sessions: []api.Session{{ID: "aaaaaa", State: api.StateActive, Live: 1}},
		Upsert:   []api.Process{{Ref: ref, Session: "aaaaaa", State: api.StateLive}}}
}

// TestHostsStatus: a host that does not answer, or has not checked itself, is not said to be well.
func TestHostsStatus(t *testing.T) {
	passed, failed := &api.SelfCheck{OK: true}, &api.SelfCheck{Why: "the canary was not seen"}
	of := func(level int, c *api.SelfCheck) *host {
		return &host{client: &apitest.Client{}, status: api.WatchStatus{Level: level, SelfCheck: c}}
	}
	for _, c := range []struct {
		hosts []*host
		level int
		check *api.SelfCheck
	}{
		{[]*host{of(4, passed), of(3, passed)}, 3, passed},
		{[]*host{of(4, passed), {}}, 4, nil},
		{[]*host{{}, of(4, failed), of(4, passed)}, 4, failed},
		{[]*host{of(4, passed), of(4, nil)}, 4, nil},
		{[]*host{{}, {}}, 0, nil},
	} {
		if s := (&fleet{inOrder: c.hosts}).status(); s.Level != c.level || s.SelfCheck != c.check {
			t.Errorf("%d hosts: %+v, want level %d and %+v", len(c.hosts), s, c.level, c.check)
		}
	}
}

// TestHosts: sessions with the same id on two hosts are distinct; a host whose connection
// breaks is a row that says why, and comes back.
func TestHosts(t *testing.T) {
	f := newFleet(t, "ssh://db", "web1", "web2", "ssh://db")
	f.hosts["web1"].feed <- snapshot(11, true)
	f.hosts["web1"].feed <- &api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{{Ref: api.Ref{PID: 12, StartNS: 5}, Session: "aaaaaa"}}}
	f.hosts["web2"].feed <- snapshot(21, false)
	f.wants("ssh://db unreachable: connection refused 0, web1 active 1, web1/aaaaaa active 1, web2 active 1, web2/aaaaaa active 1; 3 processes, 2 live")
	if r := f.picture.Session("web2/aaaaaa"); r.Session.Parent != "web2" {
		t.Errorf("%+v", r.Session)
	}

	// A request goes to the host of its session, an end with the plan that was shown.
	ctx := t.Context()
	p, err := f.client.Plan(ctx, "web2/aaaaaa")
	if err != nil || p.Session != "web2/aaaaaa" {
		t.Fatalf("%+v, %v", p, err)
	}
	if r, err := f.client.End(ctx, "web2/aaaaaa", api.EndRequest{PlanToken: p.Token}); err != nil || r.Session != "web2/aaaaaa" {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = f.client.Kill(ctx, "12@5", api.KillRequest{})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(f.hosts["web1"].Got.Killed, f.hosts["web2"].Got.Ended), "[12@5 ] [aaaaaa plan=plan-of-web2]")
	for what, err := range map[string]error{
		"is a host":          second(f.client.Plan(ctx, "web1")),
		"not found":          second(f.client.Plan(ctx, "web9/aaaaaa")),
		"pid 99@5":           second(f.client.Kill(ctx, "99@5", api.KillRequest{})),
		"connection refused": second(f.client.End(ctx, "ssh://db/aaaaaa", api.EndRequest{})),
	} {
		require.Contains(t, fmt.Sprint(err), what)
	}
	if l, err := f.client.Leaks(ctx, ""); err != nil || len(l.Items) != 2 || !strings.HasSuffix(l.Items[0].Session, "/aaaaaa") {
		t.Errorf("%+v, %v", l, err)
	}
	f.client.Events(ctx, api.EventsQuery{Session: "web1/aaaaaa"}, func(ev *api.Event) error {
		if ev.Session != "web1/aaaaaa" || ev.Process.Session != ev.Session {
			t.Errorf("%+v", ev)
		}
		return nil
	})

	// Another host gets a process of the same identity: then requests about it are refused.
	f.hosts["web2"].feed <- &api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{{Ref: api.Ref{PID: 12, StartNS: 5}, Session: "aaaaaa"}}}
	f.hosts["web2"].feed <- &api.Frame{Head: api.Head{Kind: "heartbeat"}}
	_, err = f.client.Kill(ctx, "12@5", api.KillRequest{})
	require.Contains(t, fmt.Sprint(err), "both have it")

	// A connection breaks: only the row of that host stays. It is tried again, and so is
	// the host that could not be reached.
	web1 := f.hosts["web1"]
	web1.Lock()
	broken := web1.feed
	web1.feed = make(chan *api.Frame)
	web1.Unlock()
	close(broken)
	f.wants("ssh://db unreachable: connection refused 0, web1 unreachable: connection reset 0, web2 active 1, web2/aaaaaa active 1; 1 processes, 1 live")
	db := f.hosts["ssh://db"]
	db.Lock()
	db.up = true
	db.Unlock()
	db.feed <- snapshot(31, false)
	web1.feed <- snapshot(13, false)
	f.wants("ssh://db active 1, ssh://db/aaaaaa active 1, web1 active 1, web1/aaaaaa active 1, web2 active 1, web2/aaaaaa active 1; 3 processes, 3 live")
	// A host sends a new snapshot: a process missing there is gone.
	web1.feed <- snapshot(14, false)
	f.wants("ssh://db active 1, ssh://db/aaaaaa active 1, web1 active 1, web1/aaaaaa active 1, web2 active 1, web2/aaaaaa active 1; 3 processes, 3 live")
	web1.feed <- &api.Frame{Head: api.Head{Kind: "diff"}, Closed: []string{"aaaaaa"}, Remove: []api.Ref{{PID: 14, StartNS: 5}}}
	f.wants("ssh://db active 1, ssh://db/aaaaaa active 1, web1 active 0, web2 active 1, web2/aaaaaa active 1; 2 processes, 3 live")
}

func second[T any](_ T, err error) error { return err }
