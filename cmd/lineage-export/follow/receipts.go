//go:build linux

package follow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const (
	freshTime = 5 * time.Second // between two questions for a receipt, if there was none
	mostBytes = 768 << 10       // of a message; a server takes 1 MiB by default
)

// Stream is where receipts are stored: a [bus.Bus].
type Stream interface {
	Store(ctx context.Context, stream string, m *bus.Message) error
	Last(ctx context.Context, stream, subject string) (*bus.Place, error)
}

// Receipts brings the receipts of ended sessions and of commands into a stream, each once. They come from the history,
// not from the events, which may be lost, and wait there. Its exported fields do not change after Open.
type Receipts struct {
	Stream Stream
	Dial   func(context.Context) (api.Client, error)
	Store  *Store
	Host   string // its name in subjects
	Log    zerolog.Logger

	trouble service.Trouble

	after string // the place of the last one that is stored
	sure  bool   // the one before is known to be stored, and the next one not to be
}

const receiptsName = "nats"

type receiptCursor struct {
	Schema string `json:"schema"`
	After  string `json:"after"`
}

const receiptSchema = "lineage-receipts/1"

// Open reads the cursor. An error is one that the user has to fix.
func (r *Receipts) Open() error {
	var c receiptCursor
	valid := func() bool { return c.Schema == receiptSchema && c.After != "" }
	_, err := r.Store.read(receiptsName, &c, valid, receiptSchema+" with after")
	r.after = cmp.Or(c.After, "now")
	return err
}

func (r *Receipts) Run(ctx context.Context) {
	for wait := firstPause; ctx.Err() == nil; {
		before := r.after
		if err := r.connect(ctx); ctx.Err() == nil {
			r.say(err)
		}
		if r.after != before {
			wait = firstPause
		}
		wait = pause(ctx, wait)
	}
}

// connect stores one receipt after the other until an error.
func (r *Receipts) connect(ctx context.Context) error {
	c, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		more, err := r.next(ctx, c)
		if err != nil {
			return err
		}
		r.say(nil)
		if !more {
			sleep(ctx, freshTime)
		}
	}
	return nil
}

func (r *Receipts) say(err error) {
	r.trouble.Say(r.Log, err, "receipts are not stored; they wait in the history", "receipts are stored again")
}

// next stores the receipt after the last one, and writes that it has. The stream itself knows repeats, but not for
// long: unless all went well, what the stream has last is asked for, and the receipt is stored after that or not at all.
// Only this host publishes under its subject, and the next receipt only after this one.
func (r *Receipts) next(ctx context.Context, c api.Client) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	d, err := c.History(ctx, api.HistoryQuery{After: r.after})
	if err != nil || d.Next == r.after {
		return false, err
	}
	if d.Receipt != nil {
		if err := r.store(ctx, c, d.Receipt); err != nil {
			r.sure = false
			return false, err
		}
	}
	if err := r.Store.writeCursor(receiptsName, &receiptCursor{receiptSchema, d.Next}); err != nil {
		r.sure = false
		return false, err
	}
	r.after, r.sure = d.Next, true
	return true, nil
}

func (r *Receipts) store(ctx context.Context, c api.Client, d *api.Receipt) (err error) {
	m := &bus.Message{Subject: service.ReceiptSubject(r.Host), ID: r.Host + "/" + d.ID}
	if !r.sure {
		if m.After, err = r.Stream.Last(ctx, service.ReceiptsStream,
			m.Subject); err != nil || m.After.ID == m.ID {
			return err
		}
	}
	if d.Report != nil {
		hide, err := service.Redactor(ctx, c) // the policy may have been loaded again
		if err != nil {
			return err
		}
		service.HideSecretsIn(d.Report, hide)
	}
	if err = encode(m, r.Host, d); err != nil {
		return err
	}
	return r.Stream.Store(ctx, service.ReceiptsStream, m)
}

// encode makes the body of a message, and a shorter one if it is too large.
func encode(to *bus.Message, host string, d *api.Receipt) error {
	m := &service.Receipt{Head: api.NewHead("receipt"), Host: host, Receipt: *d}
	if err := to.Encode(m); err != nil || len(to.Body) <= mostBytes {
		return err
	}
	m.Shortened = true
	if d.Report != nil {
		r := d.Report
		m.Report = &api.Report{
			Head: r.Head, Session: r.Session, Name: r.Name, State: r.State, Ended: r.Ended,
			EndReason: r.EndReason, EndedBy: r.EndedBy,
			Verdict: r.Verdict, VerdictWhy: r.VerdictWhy, DurationMS: r.DurationMS,
			Processes: []api.Outcome{}, Started: r.Started, Exited: r.Exited,
			Killed: r.Killed, Left: r.Left, ConfirmedEmpty: r.ConfirmedEmpty, Truncated: true,
			Counted: r.Counted, AuditHead: r.AuditHead,
		}
	}
	if d.Command != nil { // without reports the host's signature is of another text
		var short api.CommandReceipt
		if err := json.Unmarshal([]byte(d.Command.Receipt), &short); err != nil {
			return fmt.Errorf("read the receipt of a command: %w", err)
		}
		short.Reports = nil
		text, err := json.Marshal(&short)
		if err != nil {
			return fmt.Errorf("encode the receipt of a command: %w", err)
		}
		m.Command = &api.CommandReply{Head: d.Command.Head, Receipt: string(text)}
	}
	return to.Encode(m)
}
