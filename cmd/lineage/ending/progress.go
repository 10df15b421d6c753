package ending

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
)

// Show shows the progress of the end of a session that began with the exit of its root.
func Show(c *cli.Console, dial func(context.Context) (api.Client, error), s *api.Session) (done func()) {
	if !c.Status().Possible() {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	counts := census{}
	counts.begin(&api.Report{Session: s.ID, Name: s.Name})
	counts.kills(time.Now().Add((&Options{}).grace(s)))
	go func() {
		var err error
		if counts.c, err = dial(ctx); err == nil {
			defer counts.c.Close()
			counts.count(ctx)
		}
	}()
	clear := c.During(counts.text)
	return func() { stop(); clear() }
}

// census counts the live processes of sessions that are ending.
type census struct {
	c api.Client

	mu      sync.Mutex
	ending  []*counted
	killing time.Time // when the last of them gets SIGKILL; zero: not known
}

type counted struct {
	id, name    string
	known       bool
	total, live int
}

func (n *census) begin(r *api.Report) {
	_, members := display.Ended(r)
	n.ending = append(n.ending, &counted{id: r.Session, name: cmp.Or(r.Name, r.Session),
		total: members, live: r.Left})
}

// kills notes when a session's members get SIGKILL.
func (n *census) kills(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.After(n.killing) {
		n.killing = at
	}
}

func (n *census) count(ctx context.Context) {
	for ctx.Err() == nil {
		for _, s := range n.ending {
			if s.known && s.live == 0 {
				continue
			}
			now, err := n.c.Session(ctx, s.id)
			if err != nil {
				continue
			}
			n.mu.Lock()
			s.name = cmp.Or(now.Name, s.name)
			s.known, s.live, s.total = true, now.Live, max(s.total, now.Live)
			n.mu.Unlock()
		}
		select {
		case <-time.After(cli.Patience / 2):
		case <-ctx.Done():
		}
	}
}

// text describes the progress of the ends.
func (n *census) text(now time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	what, live, total := display.Count(len(n.ending), "session"), 0, 0
	for _, s := range n.ending {
		live, total = live+s.live, total+s.total
		if len(n.ending) == 1 {
			what = s.name
		}
	}
	line := "ending " + what
	if total > 0 {
		line += fmt.Sprintf(": %d of %d gone", total-live, total)
	}
	if left := n.killing.Sub(now); left > 0 {
		return line + fmt.Sprintf(", SIGKILL in %ds (Ctrl-C: now)", (left+time.Second-1)/time.Second)
	}
	return line + ", SIGKILL sent"
}
