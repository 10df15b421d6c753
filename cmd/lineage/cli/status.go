package cli

import (
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Patience is how long an operation may take before its progress is shown, and the time
// between updates.
const Patience = time.Second

// Status is a line on stderr that is overwritten.
func (c *Console) Status() *text.Status { return text.NewStatus(c.Stderr, width(c.Stderr)) }

// During shows on a terminal what is being done, starting after Patience, until done is
// called. what gets the current time.
func (c *Console) During(what func(now time.Time) string) (done func()) {
	line := c.Status()
	if !line.Possible() {
		return func() {}
	}
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		ticks := time.Tick(Patience)
		for {
			select {
			case now := <-ticks:
				line.Show(what(now))
			case <-over:
				line.Clear()
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(over); shown.Wait() })
}
