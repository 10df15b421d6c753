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

// session is what the host of a session answers about it; named gives the sessions of the
// answer their ids among those of all hosts. The row of a host is none.
func session[T any](f *fleet, id string, ask func(c api.Client, id string) (*T, error), named func(*host, *T)) (*T, error) {
	h, c, there, err := f.at(id)
	if err == nil && there == "" {
		err = api.NewError(api.CodeBadRequest, id+" is a host: choose one of its sessions", "")
	}
	if err != nil {
		return nil, err
	}
	return answer(h, named)(ask(c, there))
}

// process is what the host of a process answers about it.
func process[T any](f *fleet, ref string, ask func(api.Client) (*T, error), named func(*host, *T)) (*T, error) {
	h, c, err := f.of(ref)
	if err != nil {
		return nil, err
	}
	return answer(h, named)(ask(c))
}

func answer[T any](h *host, named func(*host, *T)) func(*T, error) (*T, error) {
	return func(doc *T, err error) (*T, error) {
		if doc != nil {
			named(h, doc)
		}
		return doc, err
	}
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
			return nil, nil, api.NewError(api.CodeAmbiguous,
				fmt.Sprintf("pid %s: %s and %s both have it", text, h.name, has.name), "")
		default:
			h, c = has, has.client
		}
	}
	if h == nil {
		return nil, nil, api.NewError(api.CodeNotFound, "pid "+text+": not found", "")
	}
	return h, c, nil
}

// Plan asks the session's host.
func (f *fleet) Plan(ctx context.Context, s string) (*api.Plan, error) {
	return session(f, s, func(c api.Client, id string) (*api.Plan, error) { return c.Plan(ctx, id) },
		func(h *host, p *api.Plan) { p.Session = h.id(p.Session) })
}

// End ends a session on its host.
func (f *fleet) End(ctx context.Context, s string, req api.EndRequest) (*api.Report, error) {
	return session(f, s, func(c api.Client, id string) (*api.Report, error) { return c.End(ctx, id, req) }, (*host).report)
}

// Report asks the session's host.
func (f *fleet) Report(ctx context.Context, s string, wait time.Duration) (*api.Report, error) {
	return session(f, s, func(c api.Client, id string) (*api.Report, error) { return c.Report(ctx, id, wait) }, (*host).report)
}

func (h *host) report(r *api.Report) {
	r.Session = h.id(r.Session)
	for i := range r.Also {
		r.Also[i] = h.id(r.Also[i])
	}
}

// Kill signals a process on its host.
func (f *fleet) Kill(ctx context.Context, ref string, req api.KillRequest) (*api.Killed, error) {
	return process(f, ref, func(c api.Client) (*api.Killed, error) { return c.Kill(ctx, ref, req) },
		func(h *host, k *api.Killed) { k.Process.Session = h.id(k.Process.Session) })
}

// Why asks the process's host.
func (f *fleet) Why(ctx context.Context, ref string) (*api.Why, error) {
	return process(f, ref, func(c api.Client) (*api.Why, error) { return c.Why(ctx, ref) },
		func(h *host, w *api.Why) {
			w.Process.Session, w.Session = h.id(w.Process.Session), h.session(w.Session)
		})
}

// Tree asks the session's host.
func (f *fleet) Tree(ctx context.Context, s, dead string) (*api.Tree, error) {
	return session(f, s, func(c api.Client, id string) (*api.Tree, error) { return c.Tree(ctx, id, dead) },
		func(h *host, t *api.Tree) {
			t.Session = h.session(t.Session)
			for i := range t.Nodes {
				t.Nodes[i].Session = h.id(t.Nodes[i].Session)
			}
		})
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
