//go:build linux

package lookup

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// readers is how many requests may read the whole of procfs at once.
const readers = 2

// collectTime bounds the reading of ports, locks and files for one request, and the
// wait for its turn.
const collectTime = 3 * time.Second

// Collect waits for its turn to read much of procfs, under the context that it returns;
// done ends the turn.
func (f *Finder) Collect(ctx context.Context) (limited context.Context, done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	select {
	case f.reading <- struct{}{}:
	case <-waiting.Done():
		return nil, nil, api.NewError(api.CodeTooMany, "too many requests about ports, locks and files", "try again")
	}
	limited, cancel = context.WithTimeout(ctx, collectTime)
	return limited, func() { cancel(); <-f.reading }, nil
}
