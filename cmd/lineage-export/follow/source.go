package follow

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// askTime bounds one question to the daemon, reportTime the wait for a receipt.
const (
	askTime    = 5 * time.Second
	reportTime = 10 * time.Second
)

// source answers questions by asking the daemon, without secrets.
type source struct {
	ctx    context.Context
	client api.Client
	hide   []*regexp.Regexp // secrets, by the daemon's policy
}

// newSource asks for the policy: what it redacts must not leave the host.
func newSource(ctx context.Context, c api.Client) (*source, error) {
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	hide, err := service.SecretExpressions(asking, c)
	if err != nil {
		return nil, err
	}
	return &source{ctx: ctx, client: c, hide: hide}, nil
}

func (s *source) Redact(argv []string) []string { return redact.Argv(argv, s.hide...) }

func (s *source) Hide(e *api.Event) {
	for _, p := range []*api.Process{e.Process, e.Was} {
		if p != nil {
			p.Argv = s.Redact(p.Argv)
		}
	}
	if e.Subject != nil {
		s.hideIn(e.Subject)
	}
}

func (s *source) hideIn(d *api.Session) {
	if d.Root != nil {
		d.Root.Argv, d.Root.FirstArgv = s.Redact(d.Root.Argv), nil
	}
	d.Token, d.Delegated = "", nil
}

// Session is what the daemon knows of a session, or its history.
func (s *source) Session(id string) (*api.Session, error) {
	d, err := ask(s, func(ctx context.Context) (*api.Session, error) { return s.client.Session(ctx, id) })
	if err != nil {
		return nil, unanswered(err)
	}
	s.hideIn(d)
	return d, nil
}

// report is the receipt of a session that has ended; nil: the daemon has none.
func (s *source) report(id string) (*api.Report, error) {
	d, err := ask(s, func(ctx context.Context) (*api.Report, error) { return s.client.Report(ctx, id, reportTime) })
	if err != nil || d.Verdict == "" {
		return nil, unanswered(err)
	}
	service.HideSecretsIn(d, s.Redact)
	return d, nil
}

// unanswered is an error that is no answer of the daemon.
func unanswered(err error) error {
	if errors.As(err, new(*api.Error)) {
		return nil
	}
	return err
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
