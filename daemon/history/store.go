//go:build linux

package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

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
	First(ctx context.Context) (time.Time, error)
	Last(ctx context.Context, boot string) (time.Time, error)
	Next(ctx context.Context, after int64, since time.Time, boot string, from uint64) (*Block, error)
}

// row is a session on its way into the history: copied in the registry's
// goroutine, encoded outside of it.
type row struct {
	Session
	doc    api.Session
	report *api.Report
	memory []registry.Part
}

func (r *Recorder) rowOf(v registry.View, s *registry.Session) row {
	info, c := s.Info(), v.Encoder().Clock
	x := row{doc: v.Document(s, access.Caller{}), report: s.Receipt(), memory: v.Memory(s)}
	x.Session = Session{
		Boot: r.Boot, ID: info.ID, Word: x.doc.ID, Name: x.doc.Name, UID: uint32(x.doc.UID), Parent: info.Parent,
		Zero: c.Zero(), Started: c.Zero().Add(time.Duration(info.Created)),
	}
	if s.Closed() {
		x.Ended = *c.Wall(s.Emptied())
	}
	return x
}

// encode makes a row's texts, without its secrets.
func (x *row) encode(redact func(argv []string) []string) (err error) {
	if x.Doc, err = json.Marshal(document.ReadableSession(&x.doc, document.Hiding(redact))); err != nil {
		return fmt.Errorf("encode session: %w", err)
	}
	if x.report != nil {
		if x.Report, err = json.Marshal(document.ReadableReport(x.report, 0,
			document.Hiding(redact))); err != nil {
			return fmt.Errorf("encode receipt: %w", err)
		}
	}
	if !x.Ended.IsZero() {
		return nil // nothing more is to be remembered
	}
	if x.State, err = registry.EncodeMemory(x.memory, redact); err != nil {
		return fmt.Errorf("encode session: %w", err)
	}
	return nil
}
