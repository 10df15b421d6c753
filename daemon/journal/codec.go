//go:build linux

package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Record is one event with its number in the daemon's order.
type Record struct {
	Seq uint64
	tracer.Event
	Subject []byte // of an event of a session: its document, opaque here
}

const (
	// MaxBlock bounds the events of one block.
	MaxBlock = 4096
	// maxPlain bounds a block before it is compressed, so that a damaged one cannot use
	// up the memory.
	maxPlain = 64 << 20
	// format is the first byte of a block. Older formats were never released.
	format = 5
)

// errBlock is a block of events that cannot be read.
var errBlock = errors.New("damaged block of events")

var writers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is flate's own
	}
	return w
}}

// encode packs events in the order of their Seq.
func encode(records []Record) ([]byte, error) {
	plain := binary.AppendUvarint([]byte{format}, uint64(len(records)))
	var seq, at uint64
	claimed := newClaims()
	contained, ran := make(map[*lineage.Container]uint64), make(map[*lineage.Image]uint64)
	for i := range records {
		r := &records[i]
		for _, v := range [...]uint64{
			r.Seq - seq, uint64(r.Type), r.Time - at, uint64(r.Session), uint64(r.Flags), uint64(r.Evidence) | uint64(r.Source)<<8,
			uint64(r.UID), r.Cgroup, uint64(r.ExitStatus), r.CPUTime, r.MaxRSS, uint64(r.State), uint64(r.Cause), r.Count, r.Since, ago(&r.Event),
		} {
			plain = binary.AppendUvarint(plain, v)
		}
		for _, id := range [...]tracer.Identity{r.Process, r.Creator, r.Parent, r.From} {
			plain = appendIdentity(plain, id)
		}
		plain = append(plain, marks(&r.Event))
		for _, b := range [...][]byte{bytes.TrimRight(r.Comm[:], "\x00"), address(r.Address), r.Subject} {
			plain = appendText(plain, b)
		}
		plain = claimed.append(plain, r.Claim)
		plain = appendContainer(plain, contained, r.Container)
		plain = appendImage(plain, ran, r.Image)
		if r.Was != nil {
			plain = appendImage(binary.AppendUvarint(binary.AppendUvarint(plain, uint64(r.WasUID)), r.Before), ran, r.Was)
		}
		if r.Call != nil {
			plain = claimed.call(plain, r.Call)
		}
		if r.Signal != nil {
			plain = appendSignal(plain, r.Signal)
		}
		if r.Crossing != nil {
			plain = appendCrossing(plain, r.Crossing)
		}
		seq, at = r.Seq, r.Time
	}
	if len(plain) > maxPlain {
		return nil, fmt.Errorf("encode %d events: %d bytes exceed the limit", len(records), len(plain))
	}
	var packed bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&packed)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	return packed.Bytes(), nil
}

// decode unpacks a block. It takes any bytes.
func decode(packed []byte) ([]Record, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxPlain+1))
	if err != nil || len(plain) > maxPlain || len(plain) == 0 || plain[0] != format {
		return nil, errBlock
	}
	d := decoder{b: plain[1:]}
	n := d.uint(MaxBlock)
	records := make([]Record, 0, n)
	var seq, at uint64
	var claimed unpacked
	var contained []*lineage.Container
	var ran []*lineage.Image
	for range n {
		var r Record
		r.Seq = seq + d.uint(^uint64(0))
		r.Type = tracer.EventType(d.uint(1<<16 - 1))
		r.Time = at + d.uint(^uint64(0))
		r.Session = tracer.SessionID(d.uint(^uint64(0)))
		r.Flags = tracer.EntryFlags(d.uint(1<<32 - 1))
		why := d.uint(1<<16 - 1)
		r.Evidence, r.Source = tracer.Evidence(why&0xff), tracer.Source(why>>8)
		r.UID = uint32(d.uint(1<<32 - 1))
		r.Cgroup = d.uint(^uint64(0))
		r.ExitStatus = uint32(d.uint(1<<32 - 1))
		r.CPUTime, r.MaxRSS = d.uint(^uint64(0)), d.uint(^uint64(0))
		r.State = tracer.State(d.uint(1<<32 - 1))
		r.Cause = tracer.Cause(d.uint(1<<32 - 1))
		r.Count, r.Since = d.uint(^uint64(0)), d.uint(^uint64(0))
		if ago := d.uint(r.Time + 1); ago > 0 {
			r.Exited = r.Time + 1 - ago
		}
		for _, id := range [...]*tracer.Identity{&r.Process, &r.Creator, &r.Parent, &r.From} {
			*id = d.identity()
		}
		mark := d.bytes(1)[0]
		r.Met, r.StatusKnown = mark&met != 0, mark&statusKnown != 0
		copy(r.Comm[:len(r.Comm)-1], d.text())
		d.address(&r.Address)
		r.Subject = d.text()
		r.Claim = d.claim(&claimed)
		r.Container = d.container(&contained)
		r.Image = d.image(&ran)
		if mark&replaced != 0 {
			r.WasUID, r.Before = uint32(d.uint(1<<32-1)), d.uint(^uint64(0))
			r.Was = d.image(&ran)
		}
		if mark&called != 0 {
			r.Call = d.callOf(&claimed)
		}
		if mark&signalled != 0 {
			r.Signal = d.signal()
		}
		if mark&crossed != 0 {
			r.Crossing = d.crossing()
		}
		if d.bad || r.Seq < seq {
			return nil, errBlock
		}
		seq, at = r.Seq, r.Time
		records = append(records, r)
	}
	if d.bad || len(d.b) != 0 {
		return nil, errBlock
	}
	return records, nil
}

// ago is how long before an event its process had exited, in ns plus one; 0: it lives.
func ago(e *tracer.Event) uint64 {
	if e.Exited == 0 {
		return 0
	}
	return e.Time - min(e.Exited, e.Time) + 1
}

// address is empty for events without one: most of them.
func address(a netip.AddrPort) []byte {
	if !a.IsValid() {
		return nil
	}
	b, _ := a.MarshalBinary() // it never fails
	return b
}

// decoder takes a block apart. A missing field reads as zero and sets bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > limit {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return []byte{0}
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) text() []byte {
	n := d.uint(maxPlain)
	if n == 0 {
		return nil
	}
	return d.bytes(n)
}

func (d *decoder) identity() tracer.Identity {
	pid := d.uint(1<<32 - 1)
	return tracer.Identity{PID: uint32(pid), Start: d.uint(^uint64(0))}
}

func (d *decoder) address(a *netip.AddrPort) {
	if b := d.text(); b != nil && a.UnmarshalBinary(b) != nil {
		d.bad = true
	}
}
