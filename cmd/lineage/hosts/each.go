package hosts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// AtOnce is how many hosts are queried at the same time.
const AtOnce = 32

// Time is how long one of many hosts may take to be reached and to answer.
const Time = 10 * time.Second

type Dialer func(ctx context.Context, host string) (api.Client, error)

// Asker asks the daemon of a host. It may return both an answer and an error.
type Asker func(ctx context.Context, host string, c api.Client) (*text.Listing, error)

// Each asks all hosts, each for at most timeout, and returns the answers in the order
// of the hosts. A host that cannot be reached has a *Failure.
func Each(ctx context.Context, dial Dialer, list []string, timeout time.Duration,
	ask Asker) []text.HostAnswer {
	answers := make([]text.HostAnswer, len(list))
	turns := make(chan struct{}, AtOnce)
	var all sync.WaitGroup
	for i, host := range list {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			asking, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			l, err := one(asking, dial, host, ask)
			if err != nil && asking.Err() != nil && ctx.Err() == nil {
				err = &Failure{fmt.Sprintf("no answer within %v", timeout)}
			}
			answers[i] = text.HostAnswer{Host: host, Listing: l, Err: err, Exit: Code(err)}
		})
	}
	all.Wait()
	return answers
}

// MaxHosts is on how many hosts sessions end if the command does not say more.
const MaxHosts = 25

// waves are how many hosts are asked before it is looked at whether all went well.
var waves = []int{1, 10}

// Waves asks all hosts as Each does: one, then ten, then the others. If something is left on a host, those
// of later waves are not asked.
func Waves(ctx context.Context, dial Dialer, list []string, timeout time.Duration,
	ask Asker) (answers []text.HostAnswer) {
	left := ""
	for n := 0; len(list) > 0; n++ {
		wave := list
		if n < len(waves) {
			wave = list[:min(len(list), waves[n])]
		}
		list = list[len(wave):]
		if left != "" {
			err := cli.Errorf(api.ExitFailed, "nothing was sent, because something is left on %s", left)
			for _, host := range wave {
				answers = append(answers, text.HostAnswer{Host: host, Err: err, Exit: Code(err)})
			}
			continue
		}
		for _, a := range Each(ctx, dial, wave, timeout, ask) {
			answers = append(answers, a)
			if left == "" && a.Exit == api.ExitLeft {
				left = a.Host
			}
		}
	}
	return answers
}

// TooMany is the error of a command that would end sessions on more hosts than it may.
func TooMany(command string, n, most int) error {
	return cli.Usage("%s: %d hosts are too many; raise --max-hosts, which is %d, or name fewer with -H",
		command, n, most)
}

func one(ctx context.Context, dial Dialer, host string, ask Asker) (l *text.Listing, err error) {
	c, err := dial(ctx, host)
	if err == nil {
		defer c.Close()
		l, err = ask(ctx, host, c)
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		err = f // without the text that HTTP adds
	}
	return l, err
}

// Code is the exit code of a command that asks one host, and gets this error or none.
func Code(err error) int {
	if _, ok := errors.AsType[*Failure](err); ok {
		return api.ExitUnreachable
	}
	if err == nil {
		return api.ExitOK
	}
	return cli.ExitCode(err)
}
