package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// patience is how long something may take before its state is shown, and how often that
// is then shown again.
const patience = time.Second

// status is one line on a terminal that is written over. It is not for several goroutines.
type status struct {
	w     io.Writer
	width int // 0: not a terminal, nothing is shown
	shown bool
}

func (a *app) status() *status { return &status{w: a.stderr, width: columns(a.stderr)} }

// show writes the line, over the one before.
func (s *status) show(line string) {
	if s.width > 0 && line != "" {
		s.shown = true
		io.WriteString(s.w, "\r"+text.Fit(display.Text(line), s.width-1)+"\x1b[K")
	}
}

// clear takes the line away.
func (s *status) clear() {
	if s.shown {
		io.WriteString(s.w, "\r\x1b[K")
		s.shown = false
	}
}

// during shows on a terminal what is being done, from a second after now until done is
// called.
func (a *app) during(what string) (done func()) {
	line := a.status()
	if line.width == 0 {
		return func() {}
	}
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		select {
		case <-time.After(patience):
			line.show("lineage: " + what)
			<-over
			line.clear()
		case <-over:
		}
	})
	return sync.OnceFunc(func() { close(over); shown.Wait() })
}

// census counts the live processes of sessions that are ending.
type census struct {
	c api.Client

	mu      sync.Mutex
	ending  []*counted
	killing time.Time // when the last of them gets SIGKILL; zero: not known
}

// counted is one session of a census.
type counted struct {
	id, name    string
	known       bool
	total, live int
}

// begin notes that the end of a session has begun.
func (n *census) begin(r *api.Report) {
	n.ending = append(n.ending, &counted{id: r.Session, name: cmp.Or(r.Name, r.Session)})
}

// kills notes when a session's members get SIGKILL.
func (n *census) kills(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.After(n.killing) {
		n.killing = at
	}
}

// count asks for the numbers again and again.
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
		case <-time.After(patience / 2):
		case <-ctx.Done():
		}
	}
}

// text says how far the ends are.
func (n *census) text(now time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	what, live, total := text.Count(len(n.ending), "session", "sessions"), 0, 0
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
