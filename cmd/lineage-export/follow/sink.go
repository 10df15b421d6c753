package follow

import "context"

// Sink is one receiver of records. Each has its own reader of the daemon's events and its
// own cursor, so that a receiver that is down does not stop the others.
type Sink interface {
	// Name is the name of its cursor: otlp, ocsf.
	Name() string
	// Deliver returns nil when the receiver has accepted the batch; the cursor moves then.
	// After an error the same batch comes again later: a sink must leave out records that the
	// receiver will never accept, and log them. Records may come again after a restart, with
	// the same ids.
	Deliver(ctx context.Context, batch []*Record) error
	// Close is called once, after the last Deliver.
	Close() error
}
