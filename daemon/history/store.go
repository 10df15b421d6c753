//go:build linux

package history

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Store is the part of a [Journal] that the history needs.
type Store interface {
	Path() string
	Degraded() []string
	Stats() Stats
	Due() bool
	Check(ctx context.Context) error
	Write(ctx context.Context, b *Batch) error
	Close()

	Live(ctx context.Context) ([]Session, error)
	Ended(ctx context.Context, q Query) ([]Session, error)
	After(ctx context.Context, number int64) (*Session, int64, error)
	Newest(ctx context.Context) (int64, error)
	Find(ctx context.Context, word string) ([]Session, error)
	Session(ctx context.Context, boot string, id tracer.SessionID) (*Session, error)
	Nested(ctx context.Context, boot string, parent tracer.SessionID) ([]Session, error)
	Processes(ctx context.Context, boot string, session tracer.SessionID) ([]Process, error)
	Process(ctx context.Context, boot string, pid uint32, start uint64) (*Process, error)
	Listeners(ctx context.Context, port uint16, at time.Time) ([]Listener, error)
	First(ctx context.Context) (time.Time, error)
	Last(ctx context.Context, boot string) (time.Time, error)
	Next(ctx context.Context, after int64, since time.Time, boot string, from uint64) (*Block, error)
}
