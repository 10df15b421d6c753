package follow

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/secrets"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// askTime bounds one question to the daemon, reportTime the wait for a receipt.
const (
	askTime    = 5 * time.Second
	reportTime = 10 * time.Second
)

// source answers the model's questions by asking the daemon.
type source struct {
	ctx    context.Context
	client api.Client
	hide   []*regexp.Regexp // secrets, by the daemon's policy

	unanswered error // of the last question that got no answer
}

// newSource asks for the policy: what it redacts must not leave the host.
func newSource(ctx context.Context, c api.Client) (*source, error) {
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	hide, err := secrets.Expressions(asking, c)
	if err != nil {
		return nil, err
	}
	return &source{ctx: ctx, client: c, hide: hide}, nil
}

// Redact hides secrets in a command line.
func (s *source) Redact(argv []string) []string { return redact.Argv(argv, s.hide...) }

// Session is what the daemon knows of a session, or its history.
func (s *source) Session(id string) (*api.Session, error) {
	d, err := ask(s, func(ctx context.Context) (*api.Session, error) { return s.client.Session(ctx, id) })
	switch {
	case err == nil:
	case errors.As(err, new(*api.Error)):
		return nil, nil
	default:
		s.unanswered = err
		return nil, err
	}
	if d.Root != nil {
		d.Root.Argv, d.Root.FirstArgv = s.Redact(d.Root.Argv), nil
	}
	d.Token = ""
	return d, nil
}

// Tree is the processes of a session.
func (s *source) Tree(id string) []api.Node {
	d, err := ask(s, func(ctx context.Context) (*api.Tree, error) { return s.client.Tree(ctx, id, "ancestors") })
	if err != nil {
		return nil
	}
	return d.Nodes
}

// report is the receipt of a session that has ended; nil: the daemon has none.
func (s *source) report(id string) *api.Report {
	d, err := ask(s, func(ctx context.Context) (*api.Report, error) { return s.client.Report(ctx, id, reportTime) })
	if err != nil && !errors.As(err, new(*api.Error)) {
		s.unanswered = err
	}
	if err != nil || d.Verdict == "" {
		return nil
	}
	secrets.HideIn(d, s.Redact)
	return d
}

// errStopping does not count as an answer: the next daemon is asked.
var errStopping = errors.New("the daemon is stopping")

// ask calls f, and again while the daemon's answer is: too many requests.
func ask[T any](s *source, f func(context.Context) (*T, error)) (*T, error) {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, askTime+reportTime)
		d, err := f(ctx)
		cancel()
		e, refused := errors.AsType[*api.Error](err)
		switch {
		case refused && e.Code == api.CodeStopping:
			return nil, errStopping
		case !refused || e.Code != api.CodeTooMany:
			return d, err
		}
		if sleep(s.ctx, 100*time.Millisecond); s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
	}
}
