//go:build linux

package receipts

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
)

// Stream is where receipts are stored: a [bus.Bus].
type Stream interface {
	Store(ctx context.Context, stream string, m *bus.Message) error
	Last(ctx context.Context, stream, subject string) (*bus.Place, error)
}

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// Publisher brings the outbox into the stream, one receipt after the other.
type Publisher struct {
	Stream Stream
	Reader *Reader

	Stored atomic.Uint64 // receipts, since the start
	unsure bool          // an earlier attempt may have stored the oldest receipt, whose answer did not come
	said   string
}

// Run publishes until ctx is done.
func (p *Publisher) Run(ctx context.Context) {
	p.unsure = true
	for pause := firstPause; ctx.Err() == nil; {
		item, err := p.Reader.Box.First()
		if err == nil && item == nil {
			select {
			case <-p.Reader.Box.Fresh():
			case <-ctx.Done():
			}
			continue
		}
		if err == nil {
			err = p.publish(ctx, item)
		}
		p.say(ctx, err)
		if err == nil {
			p.Stored.Add(1)
			pause = firstPause
			continue
		}
		p.unsure = true
		Sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, longestPause)
	}
}

// publish stores the oldest receipt, and removes it. The stream itself knows repeats, but not for long: if
// an answer is missing, what the stream has last is asked for, and the receipt is stored after that or not at all.
// Only this host publishes under its subject, and the next receipt only after this one.
func (p *Publisher) publish(ctx context.Context, item *outbox.Item) error {
	r := p.Reader
	m := &bus.Message{Subject: link.ReceiptSubject(r.Host), Body: item.Body, Encoding: item.Encoding, ID: r.Host + "/" + item.ID}
	stored := r.stored(item.ID) // its file is back: the host has crashed, or a command was waited for again
	if !stored && p.unsure {
		last, err := p.Stream.Last(ctx, link.Receipts, m.Subject)
		if err != nil {
			return err
		}
		stored, m.After = last.ID == m.ID, last
	}
	if !stored {
		if err := p.Stream.Store(ctx, link.Receipts, m); err != nil {
			return err
		}
	}
	if err := r.Stored(item); err != nil {
		return err
	}
	if err := r.Box.Remove(); err != nil {
		return err
	}
	p.unsure = false
	return nil
}

// say logs an error once, and when it is over.
func (p *Publisher) say(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == p.said:
	case err != nil:
		p.Reader.Log.Warn().Err(err).Msg("receipts are not stored; they wait in the outbox")
	default:
		p.Reader.Log.Info().Msg("receipts are stored again")
	}
	p.said = text
}
