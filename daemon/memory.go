//go:build linux

package daemon

import (
	"context"
	"runtime/debug"
	"time"
)

// releasePeriod is how often the daemon checks whether it has nothing to do.
const releasePeriod = 5 * time.Minute

// releaseMemory gives the free part of the heap back to the system when the start is
// over, and then once a period if no session lives.
func (s *Service) releaseMemory(ctx context.Context) {
	tick := time.Tick(releasePeriod)
	for busy := false; ; busy = s.Count() > 0 {
		if !busy {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}
