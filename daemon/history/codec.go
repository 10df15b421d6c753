//go:build linux

package history

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
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
	MaxBlock = 4096
	// maxPlain bounds a block before it is compressed, so that a damaged one cannot use
	// up the memory.
	maxPlain = 64 << 20
	// format is the first byte of a block. Older formats were never released.
	format = 5
)

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
	w := wire{b: binary.AppendUvarint([]byte{format}, uint64(len(records)))}
	w.records(records)
	if len(w.b) > maxPlain {
		return nil, fmt.Errorf("encode %d events: %d bytes exceed the limit", len(records), len(w.b))
	}
	var packed bytes.Buffer
	f := writers.Get().(*flate.Writer)
	defer writers.Put(f)
	f.Reset(&packed)
	if _, err := f.Write(w.b); err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	if err := f.Close(); err != nil {
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
	w := wire{b: plain[1:], reading: true}
	records := make([]Record, w.count(0, MaxBlock))
	w.records(records)
	if w.bad || len(w.b) != 0 {
		return nil, errBlock
	}
	return records, nil
}

// wire packs a block, or takes one apart: what it consists of stands here once for both. What is written
// does not change. What is missing in a damaged block reads as zero and sets bad.
type wire struct {
	b       []byte // what is packed, or what is left to read
	reading bool
	bad     bool

	traces     shared[lineage.Trace]
	calls      shared[*lineage.Call]
	containers shared[*lineage.Container]
	images     shared[*lineage.Image]
}

func (w *wire) records(all []Record) {
	var seq, at uint64
	for i := range all {
		r := &all[i]
		r.Seq = seq + w.count(r.Seq-seq, ^uint64(0))
		number(w, &r.Type)
		r.Time = at + w.count(r.Time-at, ^uint64(0))
		number(w, &r.Session)
		number(w, &r.Flags)
		why := w.count(uint64(r.Evidence)|uint64(r.Source)<<8, 1<<16-1)
		r.Evidence, r.Source = tracer.Evidence(why&0xff), tracer.Source(why>>8)
		number(w, &r.UID)
		number(w, &r.Cgroup)
		number(w, &r.ExitStatus)
		number(w, &r.CPUTime)
		number(w, &r.MaxRSS)
		number(w, &r.State)
		number(w, &r.Cause)
		number(w, &r.Count)
		number(w, &r.Since)
		w.exited(r)
		for _, id := range [...]*tracer.Identity{&r.Process, &r.Creator, &r.Parent, &r.From} {
			w.identity(id)
		}
		signalled, crossed, replaced, called := r.Signal != nil, r.Crossing != nil, r.Was != nil, r.Call != nil
		moved, used := r.Moved != nil, r.Used != nil // what most events have not takes no room
		w.bits(&r.Met, &r.StatusKnown, &signalled, &crossed, &replaced, &called, &moved, &used)
		comm := bytes.TrimRight(r.Comm[:], "\x00")
		text(w, &comm)
		copy(r.Comm[:len(r.Comm)-1], comm)
		w.address(&r.Address)
		text(w, &r.Subject)
		w.claim(&r.Claim)
		w.container(&r.Container)
		w.image(&r.Image)
		if replaced {
			number(w, &r.WasUID)
			number(w, &r.Before)
			w.image(&r.Was)
		}
		if called {
			w.call(&r.Call)
		}
		if signalled {
			w.signal(made(w, &r.Signal))
		}
		if crossed {
			w.crossing(made(w, &r.Crossing))
		}
		if moved {
			object(w, &r.Moved)
		}
		if used {
			object(w, &r.Used)
		}
		if w.bad || r.Seq < seq {
			w.fail()
			return
		}
		seq, at = r.Seq, r.Time
	}
}

// exited is how long before an event its process had exited, in ns plus one; 0: it lives.
func (w *wire) exited(r *Record) {
	var ago uint64
	if r.Exited != 0 {
		ago = r.Time - min(r.Exited, r.Time) + 1
	}
	if ago = w.count(ago, r.Time+1); w.reading && ago > 0 {
		r.Exited = r.Time + 1 - ago
	}
}

// address is empty for events without one: most of them.
func (w *wire) address(a *netip.AddrPort) {
	var b []byte
	if a.IsValid() {
		b, _ = a.MarshalBinary() // it never fails
	}
	if text(w, &b); w.reading && b != nil && a.UnmarshalBinary(b) != nil {
		w.fail()
	}
}

func (w *wire) identity(id *tracer.Identity) {
	number(w, &id.PID)
	number(w, &id.Start)
}

func (w *wire) fail() { w.b, w.bad = nil, true }

// count is a number: n, or the one that is read, at most limit.
func (w *wire) count(n, limit uint64) uint64 {
	if !w.reading {
		w.b = binary.AppendUvarint(w.b, n)
		return n
	}
	n, size := binary.Uvarint(w.b)
	if size <= 0 || n > limit {
		w.fail()
		return 0
	}
	w.b = w.b[size:]
	return n
}

func number[T ~uint16 | ~uint32 | ~uint64](w *wire, x *T) {
	if n := w.count(uint64(*x), uint64(^T(0))); w.reading {
		*x = T(n)
	}
}

// bytes are as many as b has.
func (w *wire) bytes(b []byte) {
	switch {
	case !w.reading:
		w.b = append(w.b, b...)
	case len(b) > len(w.b):
		w.fail()
	default:
		w.b = w.b[copy(b, w.b):]
	}
}

// octet is a number in one byte.
func octet[T ~uint8](w *wire, x *T) {
	b := [1]byte{byte(*x)}
	if w.bytes(b[:]); w.reading {
		*x = T(b[0])
	}
}

// bits are one byte, the lowest first.
func (w *wire) bits(all ...*bool) {
	var b byte
	for i, is := range all {
		if *is {
			b |= 1 << i
		}
	}
	octet(w, &b)
	for i, is := range all {
		if w.reading {
			*is = b&(1<<i) != 0
		}
	}
}

// text is empty, or what follows its length.
func text[T ~string | ~[]byte](w *wire, x *T) {
	n := w.count(uint64(len(*x)), maxPlain)
	switch {
	case !w.reading:
		w.b = append(w.b, *x...)
	case n > uint64(len(w.b)):
		w.fail()
	case n > 0:
		*x, w.b = T(w.b[:n:n]), w.b[n:]
	}
}

// object is what few events have, as JSON.
func object[T any](w *wire, x **T) {
	var b []byte
	if !w.reading {
		b, _ = json.Marshal(*x) // plain structs
	}
	if text(w, &b); w.reading && json.Unmarshal(b, x) != nil {
		w.fail()
	}
}

// made is what x points to; if it is to be read, it is made first.
func made[T any](w *wire, x **T) *T {
	if w.reading {
		*x = new(T)
	}
	return *x
}

func (w *wire) signal(s *lineage.Signal) {
	octet(w, &s.Number)
	octet(w, &s.Sender)
	oom := s.OOM != nil
	w.bits(&s.Handled, &s.Raised, &s.Passed, &oom)
	number(w, &s.Time)
	w.identity(&s.By)
	number(w, &s.Session)
	number(w, &s.UID)
	text(w, &s.Comm)
	if oom {
		object(w, &s.OOM)
	}
}

func (w *wire) crossing(c *tracer.Crossing) {
	octet(w, &c.Signal)
	w.bits(&c.Refused)
	w.identity(&c.To)
	number(w, &c.Session)
	number(w, &c.UID)
	text(w, &c.Comm)
}

// shared is what many events of a block have. It is written where it comes first, and then a number refers to
// it: 0 for none, then in their order.
type shared[T comparable] struct {
	all     []T
	numbers map[T]uint64 // of all, to write them
}

// item is x, of which content is the first time.
func (s *shared[T]) item(w *wire, x *T, content func(*T)) {
	if s.numbers == nil {
		s.numbers = make(map[T]uint64)
	}
	var none T
	next := uint64(len(s.all) + 1)
	n := s.numbers[*x]
	if n == 0 && *x != none {
		n = next
	}
	switch n = w.count(n, next); {
	case n == next:
		content(x)
		s.all = append(s.all, *x)
		if !w.reading {
			s.numbers[*x] = n
		}
	case w.reading && n > 0:
		*x = s.all[n-1]
	}
}

func (w *wire) container(x **lineage.Container) {
	w.containers.item(w, x, func(x **lineage.Container) {
		var b []byte
		if c := made(w, x); !w.reading {
			b, _ = json.Marshal(c) // nothing, of a time that JSON does not have
		}
		if text(w, &b); w.reading && b != nil && json.Unmarshal(b, *x) != nil {
			w.fail()
		}
	})
}

func (w *wire) image(x **lineage.Image) {
	w.images.item(w, x, func(x **lineage.Image) {
		i := made(w, x)
		text(w, &i.Comm)
		text(w, &i.Exe)
		w.bits(&i.Truncated)
		var argv string
		if len(i.Argv) > 0 {
			argv = strings.Join(i.Argv, "\x00") + "\x00"
		}
		if text(w, &argv); w.reading && argv != "" {
			i.Argv = strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
		}
	})
}
