//go:build linux

package journal

import (
	"encoding/binary"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// What the byte of an event says. What most events have not takes no room.
const (
	met = 1 << iota
	statusKnown
	signalled
	crossed
	replaced
	called
)

// marks is that byte.
func marks(ev *tracer.Event) byte {
	return bits(ev.Met, ev.StatusKnown, ev.Signal != nil, ev.Crossing != nil, ev.Was != nil, ev.Call != nil)
}

// bits has a bit for each, the lowest first.
func bits(all ...bool) (b byte) {
	for i, is := range all {
		if is {
			b |= 1 << i
		}
	}
	return b
}

func appendSignal(b []byte, s *lineage.Signal) []byte {
	b = append(b, s.Number, byte(s.Sender), bits(s.Handled, s.Raised, s.Passed))
	b = binary.AppendUvarint(b, s.Time)
	b = appendIdentity(b, s.By)
	b = binary.AppendUvarint(b, uint64(s.Session))
	b = binary.AppendUvarint(b, uint64(s.UID))
	return appendText(b, s.Comm)
}

// signal is the inverse of appendSignal.
func (d *decoder) signal() *lineage.Signal {
	s := new(lineage.Signal)
	s.Number, s.Sender = d.bytes(1)[0], lineage.Sender(d.bytes(1)[0])
	how := d.bytes(1)[0]
	s.Handled, s.Raised, s.Passed = how&1 != 0, how&2 != 0, how&4 != 0
	s.Time, s.By = d.uint(^uint64(0)), d.identity()
	s.Session, s.UID, s.Comm = lineage.SessionID(d.uint(^uint64(0))), uint32(d.uint(1<<32-1)), string(d.text())
	return s
}

func appendCrossing(b []byte, c *tracer.Crossing) []byte {
	var refused byte
	if c.Refused {
		refused = 1
	}
	b = appendIdentity(append(b, c.Signal, refused), c.To)
	b = binary.AppendUvarint(b, uint64(c.Session))
	b = binary.AppendUvarint(b, uint64(c.UID))
	return appendText(b, c.Comm)
}

// crossing is the inverse of appendCrossing.
func (d *decoder) crossing() *tracer.Crossing {
	c := new(tracer.Crossing)
	c.Signal, c.Refused, c.To = d.bytes(1)[0], d.bytes(1)[0] != 0, d.identity()
	c.Session, c.UID, c.Comm = lineage.SessionID(d.uint(^uint64(0))), uint32(d.uint(1<<32-1)), string(d.text())
	return c
}
