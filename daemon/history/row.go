//go:build linux

package history

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// row is a session on its way into the history: copied in the registry's
// goroutine, encoded outside of it.
type row struct {
	id, parent tracer.SessionID
	created    uint64
	zero       time.Time
	ended      *time.Time
	doc        api.Session
	report     *api.Report
	memory     []registry.Part
}

func rowOf(v registry.View, s *registry.Session) row {
	info, c := s.Info(), v.Encoder().Clock
	x := row{
		id: info.ID, parent: info.Parent, created: info.Created, zero: c.Zero(),
		doc: v.Document(s, access.Caller{}), report: s.Receipt(), memory: v.Memory(s),
	}
	if s.Closed() {
		x.ended = c.Wall(s.Emptied())
	}
	return x
}

// session encodes a row, without its secrets.
func (x *row) session(r *Recorder) (s journal.Session, err error) {
	s = journal.Session{
		Boot: r.boot, ID: x.id, Word: x.doc.ID, Name: x.doc.Name, UID: uint32(x.doc.UID), Parent: x.parent,
		Zero: x.zero, Started: x.zero.Add(time.Duration(x.created)),
	}
	if s.Doc, err = json.Marshal(document.RedactedSession(&x.doc, r.redact)); err != nil {
		return s, fmt.Errorf("encode session: %w", err)
	}
	if x.report != nil {
		shown := *x.report
		shown.Processes = document.Redacted(shown.Processes, r.redact)
		shown.Brokered = document.RedactedBrokered(shown.Brokered, r.redact)
		if s.Report, err = json.Marshal(&shown); err != nil {
			return s, fmt.Errorf("encode receipt: %w", err)
		}
	}
	if x.ended != nil {
		s.Ended = *x.ended
		return s, nil // nothing more is to be remembered
	}
	if s.State, err = registry.EncodeMemory(x.memory, r.redact); err != nil {
		return s, fmt.Errorf("encode session: %w", err)
	}
	return s, nil
}
