package hosts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// AtOnce is how many hosts are queried at the same time.
const AtOnce = 32

// Time is how long one of many hosts may take to be reached and to answer.
const Time = 10 * time.Second

// Answer is one host's answer.
type Answer[T any] struct {
	Host  string
	Value T
	Err   error
}

// Dialer connects to the daemon of a host.
type Dialer func(ctx context.Context, host string) (api.Client, error)

// Each asks all hosts, each for at most timeout, and returns the answers in the order
// of the hosts. A host that cannot be reached has a *Failure.
func Each[T any](ctx context.Context, dial Dialer, list []string, timeout time.Duration, ask func(ctx context.Context, host string, c api.Client) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(list))
	turns := make(chan struct{}, AtOnce)
	var all sync.WaitGroup
	for i, host := range list {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			asking, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			a := Answer[T]{Host: host}
			a.Value, a.Err = one(asking, dial, host, ask)
			if a.Err != nil && asking.Err() != nil && ctx.Err() == nil {
				a.Err = &Failure{fmt.Sprintf("no answer within %v", timeout)}
			}
			answers[i] = a
		})
	}
	all.Wait()
	return answers
}

func one[T any](ctx context.Context, dial Dialer, host string, ask func(context.Context, string, api.Client) (T, error)) (value T, err error) {
	c, err := dial(ctx, host)
	if err == nil {
		defer c.Close()
		value, err = ask(ctx, host, c)
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		err = f // without the text that HTTP adds
	}
	return value, err
}
