package record

import "context"

// Sink is one receiver of records. Each has a reader of the daemon's events and a cursor of
// its own: one that is down stops no other.
type Sink interface {
	// Name is the name of its cursor: otlp, ocsf, webhook.
	Name() string
	// Deliver returns nil when the receiver has taken the batch; the cursor moves then. After
	// an error the same batch comes again, later: what the receiver will never take, a sink
	// has to leave out and count in Refused. Records may come again after a restart, with the
	// same ids.
	Deliver(ctx context.Context, batch []*Record) error
	// Refused is how many records the receiver would not take.
	Refused() uint64
	// Close is called once, after the last Deliver.
	Close() error
}
