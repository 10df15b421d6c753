package ending

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// ExitTimeout is the exit code of [Waiter.Wait] when the time is over, as that of timeout(1).
const ExitTimeout = 124

// Goals are what [Waiter.Wait] can wait for. A session that has ended has reached each.
var Goals = map[string]func(*api.Session) bool{
	"end":       nil, // the daemon answers with the receipt
	"idle":      func(s *api.Session) bool { return s.IdleSeconds > 0 },
	"root-exit": func(s *api.Session) bool { return s.Root == nil || s.Root.State != api.StateLive },
}

// Waiter waits for sessions of one daemon, which may restart meanwhile.
type Waiter struct {
	Sessions api.Selection
	Goal     string        // one of [Goals]
	Timeout  time.Duration // 0: none
	Console  *cli.Console
	Dial     func(context.Context) (api.Client, error)
	Format   string
	client   api.Client
}

// Wait waits for the sessions that are selected now, and prints their receipts; those that have not ended, as a list.
func (w *Waiter) Wait(ctx context.Context) error {
	deadline := time.Now().Add(w.Timeout)
	found, err := patient(ctx, deadline, func() (_ *api.Found, err error) {
		if w.client, err = w.Dial(ctx); err != nil {
			return nil, err
		}
		return w.Sessions.Resolve(ctx, w.client)
	})
	if err != nil {
		return err
	}
	defer w.client.Close()
	ids := found.IDs()
	if len(ids) == 0 {
		return cli.Errorf(api.ExitNotFound, "wait: no session is selected")
	}
	if w.Timeout == 0 {
		deadline = deadline.AddDate(100, 0, 0) // later ones overflow when a little is added
	}
	if w.Goal != "end" {
		return w.reach(ctx, ids, deadline)
	}
	var targets []*target
	for len(ids) > 0 {
		var all sync.WaitGroup
		for _, id := range ids {
			t := &target{word: id}
			targets = append(targets, t)
			all.Go(func() { t.report, t.err = w.verdict(ctx, id, deadline) })
		}
		all.Wait()
		if ids, err = w.companions(ctx, targets, deadline); err != nil {
			targets = append(targets, &target{err: err})
		}
	}
	return (&Ender{Console: w.Console, Format: w.Format}).report(targets)
}

func (w *Waiter) late() error { return cli.Errorf(ExitTimeout, "wait: not over after %v", w.Timeout) }

// patient asks until the daemon answers, or the time is over. What is not known then is unknown.
func patient[T any](ctx context.Context, deadline time.Time, ask func() (T, error)) (T, error) {
	for {
		doc, err := ask()
		if _, away := errors.AsType[*api.UnreachableError](err); !away || ctx.Err() != nil {
			return doc, err
		}
		if time.Now().After(deadline) {
			return doc, &cli.Error{Code: api.ExitFailed, Err: err}
		}
		time.Sleep(pollPause)
	}
}

// verdict returns the receipt of a session that has ended. One that proves nothing is an error, too.
func (w *Waiter) verdict(ctx context.Context, id string, deadline time.Time) (*api.Report, error) {
	r, err := patient(ctx, deadline, func() (*api.Report, error) {
		one := waiting{c: w.client, id: id, hurried: context.Background(),
			timeout: time.Until(deadline)}
		return one.report(ctx, 0)
	})
	switch {
	case err != nil:
	case r.Verdict == "":
		return nil, w.late()
	case r.Verdict == api.VerdictUnknown:
		err = cli.Errorf(api.ExitFailed, "%s", text.Shortfall(r))
	}
	return r, err
}

// companions are the sessions, beside the targets, that hold work of theirs.
func (w *Waiter) companions(ctx context.Context, targets []*target,
	deadline time.Time) (ids []string, err error) {
	list, err := patient(ctx, deadline,
		func() (*api.Sessions, error) { return w.client.Sessions(ctx, "live", "") })
	if err != nil {
		return nil, err
	}
	waited := func(id string) bool {
		return slices.ContainsFunc(targets, func(t *target) bool { return t.word == id })
	}
	for _, s := range list.Items {
		if s.DelegatedBy != "" && waited(s.DelegatedBy) && !waited(s.ID) {
			w.Console.Say("wait: session %s holds work of %s, and is waited for, too",
				s.ID, s.DelegatedBy)
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// reach waits until each session has reached the goal, or is over.
func (w *Waiter) reach(ctx context.Context, ids []string, deadline time.Time) error {
	over := errors.New("all have")
	left := slices.Clone(ids)
	watching, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	_, err := patient(ctx, deadline, func() (*api.Sessions, error) {
		listed := make(map[string]bool) // of the whole picture, which comes first
		err := w.client.Watch(watching, func(f *api.Frame) error {
			for i := range f.Sessions {
				s := &f.Sessions[i]
				listed[s.ID] = true
				if s.State == api.StateEnded || Goals[w.Goal](s) {
					f.Closed = append(f.Closed, s.ID)
				}
			}
			left = slices.DeleteFunc(left, func(id string) bool {
				return slices.Contains(f.Closed, id) || !f.Partial && !listed[id]
			})
			if len(left) == 0 {
				return over
			}
			return nil
		})
		if err == nil { // it stops
			err = &api.UnreachableError{Err: api.ErrNoEnd}
		}
		return nil, err
	})
	switch {
	case len(left) > 0 && errors.Is(err, context.DeadlineExceeded):
		return w.late()
	case len(left) > 0:
		return err
	}
	list := &api.Sessions{Items: []api.Session{}}
	for _, id := range ids {
		s, err := w.client.Session(ctx, id)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, *s)
	}
	return w.Console.Print(w.Format, text.Sessions(list))
}
