//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hook"
)

// reachTime is how long a dead, stopped or absent daemon may delay an answer. A healthy
// daemon answers the first request within a few milliseconds.
const reachTime = 250 * time.Millisecond

// busyTime is how long a running daemon may take: in a fork storm it may be slow, and
// that is when an end is needed.
const busyTime = 5 * time.Second

// daemon is the way to the daemon. Each call connects again: it may come and go while
// the agent runs.
type daemon struct {
	socket string
	// reported records, for this server when it is started again, that the agent was told of a
	// missing daemon.
	reported *hook.Note

	mu          sync.Mutex
	wasReported bool
	watching    int // the process whose session is the agent's: our own
}

func newDaemon(socket string, env func(string) string) *daemon {
	return &daemon{socket: socket, watching: os.Getpid(), reported: hook.NewNote(env, "lineage-mcp-unreachable")}
}

// errSilent is the answer to every call without a daemon except the first, which says
// what is wrong.
var errSilent = errors.New("lineage does not answer; continue without it")

// errOutside: these tools are about the session of the agent, and it has none.
var errOutside = errors.New("this agent is not in a lineage session, so nothing is known of its processes; " +
	"an operator can start it with: lineage run -- AGENT, or adopt it: lineage adopt PID")

// ask connects, finds the session that we are a member of, and calls f.
func (d *daemon) ask(ctx context.Context, f func(c api.Client, session string) error) error {
	reaching, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	c, err := api.Dial(reaching, d.socket)
	if err != nil && reaching.Err() != nil && hook.LookForListener(d.socket) == hook.ListenerRunning {
		busy, cancel := context.WithTimeout(ctx, busyTime)
		defer cancel()
		c, err = api.Dial(busy, d.socket)
	}
	if err != nil {
		return d.unreachable(err, reaching.Err() != nil)
	}
	defer c.Close()
	d.reached()
	self, err := c.Process(ctx, fmt.Sprint(d.watching))
	if err != nil {
		return err
	}
	if self.Session == "" {
		return errOutside
	}
	return f(c, self.Session)
}

// unreachable says what is wrong once, and not again after the agent was restarted.
func (d *daemon) unreachable(err error, late bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, before := d.reported.Read()
	reported := d.wasReported || before
	d.wasReported = true
	if reported {
		return errSilent
	}
	d.reported.Write("told\n")
	if late {
		err = fmt.Errorf("the daemon at %s does not answer within %v", d.socket, reachTime)
	}
	return fmt.Errorf("%w. Your processes run on, but lineage cannot list or end them now; continue without it. This is said once", err)
}

func (d *daemon) reached() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wasReported = false
	d.reported.Remove()
}
