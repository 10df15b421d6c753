package view

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// at is the host of a session, its client, and the session's id there; "" for the row of
// the host itself.
func (f *fleet) at(id string) (*host, api.Client, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, session := id, "" // the host's row
	if f.hosts[id] == nil {
		i := max(strings.LastIndexByte(id, '/'), 0)
		name, session = id[:i], strings.TrimPrefix(id[i:], "/")
	}
	switch h := f.hosts[name]; {
	case h == nil:
		return nil, nil, "", api.NewError(api.CodeNotFound, "session "+id+": not found", "")
	case h.client == nil:
		return nil, nil, "", errors.New(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", name, h.state, h.why), ": "))
	default:
		return h, h.client, session, nil
	}
}

// session is at for requests about one session, not the row of a host.
func (f *fleet) session(id string) (*host, api.Client, string, error) {
	h, c, session, err := f.at(id)
	if err == nil && session == "" {
		err = api.NewError(api.CodeBadRequest, id+" is a host: choose one of its sessions", "")
	}
	return h, c, session, err
}

// of is the host of a process. Two hosts may have one of the same PID and start: then
// it is ambiguous.
func (f *fleet) of(text string) (h *host, c api.Client, err error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, has := range f.hosts {
		switch {
		case !has.processes[ref] || has.client == nil:
		case h != nil:
			return nil, nil, api.NewError(api.CodeAmbiguous, fmt.Sprintf("pid %s: %s and %s both have it", text, h.name, has.name), "")
		default:
			h, c = has, has.client
		}
	}
	if h == nil {
		return nil, nil, api.NewError(api.CodeNotFound, "pid "+text+": not found", "")
	}
	return h, c, nil
}

// Plan asks the session's host, and remembers the plan's token for an end.
func (f *fleet) Plan(ctx context.Context, s string) (*api.Plan, error) {
	h, c, id, err := f.session(s)
	if err != nil {
		return nil, err
	}
	p, err := c.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	h.plans[id] = p.Token
	f.mu.Unlock()
	p.Session = h.id(p.Session)
	return p, nil
}

// End ends a session on its host, with the plan that was shown.
func (f *fleet) End(ctx context.Context, s string, req api.EndRequest) (*api.Report, error) {
	h, c, id, err := f.session(s)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	req.PlanToken = h.plans[id]
	f.mu.Unlock()
	r, err := c.End(ctx, id, req)
	return h.report(r), err
}

// Report asks the session's host.
func (f *fleet) Report(ctx context.Context, s string, wait time.Duration) (*api.Report, error) {
	h, c, id, err := f.session(s)
	if err != nil {
		return nil, err
	}
	r, err := c.Report(ctx, id, wait)
	return h.report(r), err
}

func (h *host) report(r *api.Report) *api.Report {
	if r != nil {
		r.Session = h.id(r.Session)
		for i := range r.Also {
			r.Also[i] = h.id(r.Also[i])
		}
	}
	return r
}

// Kill signals a process on its host.
func (f *fleet) Kill(ctx context.Context, ref string, req api.KillRequest) (*api.Killed, error) {
	h, c, err := f.of(ref)
	if err != nil {
		return nil, err
	}
	k, err := c.Kill(ctx, ref, req)
	if k != nil {
		k.Process.Session = h.id(k.Process.Session)
	}
	return k, err
}

// Why asks the process's host.
func (f *fleet) Why(ctx context.Context, ref string) (*api.Why, error) {
	h, c, err := f.of(ref)
	if err != nil {
		return nil, err
	}
	w, err := c.Why(ctx, ref)
	if w != nil {
		w.Process.Session, w.Session = h.id(w.Process.Session), h.session(w.Session)
	}
	return w, err
}

// Tree asks the session's host.
func (f *fleet) Tree(ctx context.Context, s, dead string) (*api.Tree, error) {
	h, c, id, err := f.session(s)
	if err != nil {
		return nil, err
	}
	t, err := c.Tree(ctx, id, dead)
	if t != nil {
		t.Session = h.session(t.Session)
		for i := range t.Nodes {
			t.Nodes[i].Session = h.id(t.Nodes[i].Session)
		}
	}
	return t, err
}

// Leaks asks all hosts that answer.
func (f *fleet) Leaks(ctx context.Context, _ string) (*api.Leaks, error) {
	ctx, cancel := context.WithTimeout(ctx, hostTime)
	defer cancel()
	parts := make([]*api.Leaks, len(f.inOrder)) // nil: the host's row says why
	var asked sync.WaitGroup
	for i, h := range f.inOrder {
		if _, c, _, err := f.at(h.name); err == nil {
			asked.Go(func() {
				if l, err := c.Leaks(ctx, ""); err == nil {
					parts[i] = l
				}
			})
		}
	}
	asked.Wait()
	all := &api.Leaks{}
	for i, part := range parts {
		if part == nil {
			continue
		}
		for _, l := range part.Items {
			l.Session = f.inOrder[i].id(l.Session)
			all.Items = append(all.Items, l)
		}
	}
	return all, nil
}

// Events are those of a session, or of all sessions of a host.
func (f *fleet) Events(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error {
	h, c, id, err := f.at(q.Session)
	if err != nil {
		return err
	}
	q.Session = id
	return c.Events(ctx, q, func(ev *api.Event) error {
		ev.Session = h.id(ev.Session)
		if ev.Process != nil {
			ev.Process.Session = h.id(ev.Process.Session)
		}
		return each(ev)
	})
}
