//go:build linux

package history

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

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
	if x.Doc, err = json.Marshal(document.RedactedSession(&x.doc, redact)); err != nil {
		return fmt.Errorf("encode session: %w", err)
	}
	if x.report != nil {
		if x.Report, err = json.Marshal(document.RedactedReport(x.report, redact)); err != nil {
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
