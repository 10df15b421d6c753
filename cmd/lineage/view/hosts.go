package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/tui"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

const (
	// MostHosts limits the hosts of one view: each has an ssh while it is shown.
	MostHosts = hosts.AtOnce
	// hostTime is how long a host may take to be reached, hostPause the time between two
	// attempts.
	hostTime  = 10 * time.Second
	hostPause = 3 * time.Second
)

// Hosts shows the daemons of several hosts. Each host is a session in which its own are
// nested: so it is a row with their sums, and a host that cannot be reached says why. Ids
// of sessions start with the host.
func Hosts(list []string, dial hosts.Dialer) Connect {
	f := &fleet{dial: dial, hosts: map[string]*host{}}
	for _, name := range slices.Sorted(slices.Values(list)) {
		h := &host{name: name, state: picture.Connecting}
		h.forget()
		f.hosts[name], f.inOrder = h, append(f.inOrder, h)
	}
	return func(context.Context) (tui.Client, error) { return f, nil }
}

// fleet is several daemons as one client of the view.
type fleet struct {
	dial    hosts.Dialer
	hosts   map[string]*host
	inOrder []*host

	mu sync.Mutex // guards each host
}

// host is what is known about one daemon.
type host struct {
	name      string
	client    api.Client // nil: not connected
	state     api.SessionState
	why       string // it is unreachable
	status    api.WatchStatus
	sessions  map[string]*api.Session // by their id there
	processes map[api.Ref]bool
}

// forget drops what is known about the host: it may be outdated soon.
func (h *host) forget() {
	h.client, h.status = nil, api.WatchStatus{}
	h.sessions, h.processes = map[string]*api.Session{}, map[api.Ref]bool{}
}

// Watch merges the pictures of the hosts, each as often as it changes.
func (f *fleet) Watch(ctx context.Context, q api.WatchQuery, each func(*api.Frame) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	first := &api.Frame{Head: api.Head{Kind: "snapshot"}, TimeNS: now(), Status: &api.WatchStatus{}}
	for _, h := range f.inOrder {
		first.Sessions = append(first.Sessions, h.row())
	}
	if err := each(first); err != nil {
		return err
	}
	frames := make(chan *api.Frame)
	for _, h := range f.inOrder {
		all.Go(func() { f.follow(ctx, h, q, frames) })
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case frame := <-frames:
			if err := each(frame); err != nil {
				return err
			}
		}
	}
}

// now is the time of a frame, as wall time: the hosts were booted at different times.
func now() api.U64 { return api.U64(time.Now().UnixNano()) }

// follow reads one host's frames, and reconnects when the connection breaks.
func (f *fleet) follow(ctx context.Context, h *host, q api.WatchQuery, frames chan<- *api.Frame) {
	send := func(frame *api.Frame) error {
		select {
		case frames <- frame:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for ctx.Err() == nil {
		err := f.watch(ctx, h, q, send)
		if ctx.Err() != nil || send(f.gone(h, err)) != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(hostPause):
		}
	}
}

func (f *fleet) watch(ctx context.Context, h *host, q api.WatchQuery, send func(*api.Frame) error) error {
	dialing, cancel := context.WithTimeout(ctx, hostTime)
	c, err := f.dial(dialing, h.name)
	if dialing.Err() != nil && err != nil {
		err = fmt.Errorf("no answer within %v", hostTime)
	}
	cancel()
	if err != nil {
		return err
	}
	defer c.Close()
	f.mu.Lock()
	h.client = c
	f.mu.Unlock()
	reason := "stream over"
	err = c.Watch(ctx, q, func(frame *api.Frame) error {
		switch frame.Kind {
		case "end":
			reason = "the daemon is " + frame.Reason
		case "snapshot", "diff":
			return send(f.take(h, frame))
		}
		return nil
	})
	if err == nil {
		err = errors.New(reason)
	}
	return err
}

// gone removes everything of a host from the picture except its row, which says why.
func (f *fleet) gone(h *host, why error) *api.Frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	frame := h.nothing()
	h.forget()
	h.state, h.why = picture.Unreachable, reason(why)
	return f.closed(frame, h)
}

// reason is an error without the text that HTTP adds.
func reason(err error) string {
	if failure, ok := errors.AsType[*hosts.Failure](err); ok {
		err = failure
	}
	return err.Error()
}

// take turns a frame of one host into a frame of all. A part of a frame is not held back: what
// the host has is shown as it comes.
func (f *fleet) take(h *host, frame *api.Frame) *api.Frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.state, h.why = api.StateActive, ""
	return f.closed(h.merge(frame), h)
}

// closed adds the host's row and the status of all hosts to a frame.
func (f *fleet) closed(frame *api.Frame, h *host) *api.Frame {
	frame.Sessions = append(frame.Sessions, h.row())
	frame.Status = f.status()
	return frame
}

// status is the worst of the hosts' levels and self-checks, and the sum of their counts. Of a host
// that does not answer nothing is known: then the checks are not said to have passed.
func (f *fleet) status() *api.WatchStatus {
	all := &api.WatchStatus{ReadOnly: true}
	checked := true
	for _, h := range f.inOrder {
		s := h.status
		checked = checked && h.client != nil && s.SelfCheck != nil
		if h.client == nil {
			continue
		}
		if all.Level == 0 || s.Level != 0 && s.Level < all.Level {
			all.Level = s.Level
		}
		all.Mode = cmp.Or(all.Mode, s.Mode)
		all.Lost, all.Forks, all.Live = all.Lost+s.Lost, all.Forks+s.Forks, all.Live+s.Live
		all.ReadOnly = all.ReadOnly && s.ReadOnly
		for _, d := range s.Degraded {
			all.Degraded = append(all.Degraded, h.name+": "+d)
		}
		if s.Breaker.Open {
			all.Breaker = s.Breaker
		}
		if s.SelfCheck != nil && (all.SelfCheck == nil || all.SelfCheck.OK) {
			all.SelfCheck = s.SelfCheck
		}
	}
	if !checked && all.SelfCheck != nil && all.SelfCheck.OK {
		all.SelfCheck = nil
	}
	slices.Sort(all.Degraded)
	return all
}

// row is the host as a session that contains its own sessions.
func (h *host) row() api.Session {
	s := api.Session{ID: h.name, State: h.state, EndReason: h.why, Level: h.status.Level, Mode: h.status.Mode}
	for _, in := range h.sessions {
		if in.Parent != "" || in.State == api.StateEnded {
			continue
		}
		s.Live, s.Orphans, s.Leftovers, s.Zombies = s.Live+in.Live, s.Orphans+
			in.Orphans, s.Leftovers+in.Leftovers, s.Zombies+in.Zombies
		s.CPUSeconds, s.RSSBytes = s.CPUSeconds+in.CPUSeconds, s.RSSBytes+in.RSSBytes
		s.Forks += in.Forks
	}
	return s
}

func (h *host) frame() *api.Frame { return &api.Frame{Head: api.Head{Kind: "diff"}, TimeNS: now()} }

// nothing is a change of the whole picture that removes what the host has reported.
func (h *host) nothing() *api.Frame {
	out := h.frame()
	out.Remove = slices.Collect(maps.Keys(h.processes))
	for id := range h.sessions {
		out.Closed = append(out.Closed, h.id(id))
	}
	return out
}

// merge stores a frame of the host, and returns it as a change of the whole picture.
func (h *host) merge(f *api.Frame) *api.Frame {
	out := h.frame()
	if f.Kind == "snapshot" {
		out = h.nothing()
		clear(h.sessions)
		clear(h.processes)
	}
	if f.Status != nil {
		h.status = *f.Status
	}
	for _, ref := range f.Remove {
		delete(h.processes, ref)
	}
	out.Remove = append(out.Remove, f.Remove...)
	for _, id := range f.Closed {
		delete(h.sessions, id)
		out.Closed = append(out.Closed, h.id(id))
	}
	for i := range f.Sessions {
		h.sessions[f.Sessions[i].ID] = &f.Sessions[i]
		out.Sessions = append(out.Sessions, *h.session(&f.Sessions[i]))
	}
	for _, p := range f.Upsert {
		h.processes[p.Ref] = true
		p.Session = h.id(p.Session)
		out.Upsert = append(out.Upsert, p)
	}
	return out
}

// id is the id of a session of the host among those of all hosts.
func (h *host) id(session string) string {
	if session == "" {
		return ""
	}
	return h.name + "/" + session
}

// session is a session of the host among those of all hosts; nested in another one, or in
// the host's row.
func (h *host) session(s *api.Session) *api.Session {
	if s == nil {
		return nil
	}
	out := *s
	out.ID, out.Parent, out.BrokeredBy = h.id(s.ID), cmp.Or(h.id(s.Parent), h.name), h.id(s.BrokeredBy)
	return &out
}
