package console

import (
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Patience is how long something may take before its state is shown, and how often that
// is then shown again.
const Patience = time.Second

// Status is a line on stderr that is written over.
func (c *Console) Status() *text.Status { return text.NewStatus(c.Stderr, width(c.Stderr)) }

// During shows on a terminal what is being done, from a second after now until done is
// called. what gets the time.
func (c *Console) During(what func(now time.Time) string) (done func()) {
	line := c.Status()
	if !line.Possible() {
		return func() {}
	}
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		ticks := time.NewTicker(Patience)
		defer ticks.Stop()
		for {
			select {
			case now := <-ticks.C:
				line.Show(what(now))
			case <-over:
				line.Clear()
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(over); shown.Wait() })
}
