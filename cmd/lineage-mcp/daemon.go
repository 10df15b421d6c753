//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// reachTime is how long a daemon that hangs may delay an answer: in a fork storm one that runs may be slow, and
// that is when an end is needed.
const reachTime = 5 * time.Second

// daemon is the way to the daemon. Each call connects again: it may come and go while
// the agent runs.
type daemon struct {
	socket   string
	watching int // the process whose session is the agent's: our own
}

func newDaemon(socket string) *daemon { return &daemon{socket, os.Getpid()} }

// errOutside: these tools are about the session of the agent, and it has none.
var errOutside = errors.New("this agent is not in a lineage session, so nothing is known of its processes; " +
	"an operator can start it with: lineage run -- AGENT, or adopt it: lineage adopt PID")

// ask connects, finds the session that we are a member of, and calls f.
func (d *daemon) ask(ctx context.Context, f func(c api.Client, session string) error) error {
	reaching, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	c, err := api.Dial(reaching, d.socket)
	if err != nil {
		return fmt.Errorf("%w. Your processes run on, but lineage cannot list or end them now; continue without it", err)
	}
	defer c.Close()
	self, err := c.Process(ctx, fmt.Sprint(d.watching))
	if err != nil {
		return err
	}
	if self.Session == "" {
		return errOutside
	}
	return f(c, self.Session)
}
