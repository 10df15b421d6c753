//go:build linux

package journal

import (
	"encoding/binary"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// What the byte of an event says. Most events have no signal, which then takes no room.
const (
	truncated = 1 << iota
	signalled
)

// What the byte of a signal says.
const (
	handled = 1 << iota
	raised
)

func marks(ev *tracer.Event) (b byte) {
	if ev.ArgvTruncated {
		b |= truncated
	}
	if ev.Signal != nil {
		b |= signalled
	}
	return b
}

func appendSignal(b []byte, s *lineage.Signal) []byte {
	var how byte
	if s.Handled {
		how |= handled
	}
	if s.Raised {
		how |= raised
	}
	b = append(b, s.Number, byte(s.Sender), how)
	b = binary.AppendUvarint(b, s.Time)
	b = appendIdentity(b, s.By)
	b = binary.AppendUvarint(b, uint64(s.Session))
	b = binary.AppendUvarint(b, uint64(s.UID))
	return append(binary.AppendUvarint(b, uint64(len(s.Comm))), s.Comm...)
}

// signal is the inverse of appendSignal.
func (d *decoder) signal() *lineage.Signal {
	s := new(lineage.Signal)
	s.Number, s.Sender = d.bytes(1)[0], lineage.Sender(d.bytes(1)[0])
	how := d.bytes(1)[0]
	s.Handled, s.Raised = how&handled != 0, how&raised != 0
	s.Time, s.By = d.uint(^uint64(0)), d.identity()
	s.Session, s.UID, s.Comm = lineage.SessionID(d.uint(^uint64(0))), uint32(d.uint(1<<32-1)), string(d.text())
	return s
}
