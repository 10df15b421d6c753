//go:build linux

package journal

import (
	"encoding/binary"
	"slices"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxCalls bounds the tool calls of one claim.
const maxCalls = 256

// claims packs what members claim. Many events of a block repeat it, so a trace or a call is
// written where it comes first, and then a number refers to it: 0 for none, then in their order.
type claims struct {
	traces map[lineage.Trace]uint64
	calls  map[*lineage.Call]uint64
}

func newClaims() claims {
	return claims{make(map[lineage.Trace]uint64), make(map[*lineage.Call]uint64)}
}

func (t claims) append(b []byte, c *lineage.Claim) []byte {
	if c == nil {
		return append(b, 0, 0)
	}
	b = t.trace(b, &c.Trace)
	b = binary.AppendUvarint(b, uint64(len(c.Calls)))
	for _, x := range c.Calls {
		b = t.call(b, x)
	}
	return b
}

func (t claims) trace(b []byte, x *lineage.Trace) []byte {
	if *x == (lineage.Trace{}) {
		return append(b, 0)
	}
	n, written := t.traces[*x]
	if written {
		return binary.AppendUvarint(b, n)
	}
	n = uint64(len(t.traces) + 1)
	t.traces[*x] = n
	sampled := byte(0)
	if x.Sampled {
		sampled = 1
	}
	b = append(binary.AppendUvarint(b, n), sampled)
	return appendIdentity(slices.Concat(b, x.ID[:], x.Span[:]), x.From)
}

func (t claims) call(b []byte, x *lineage.Call) []byte {
	return once(b, t.calls, x, func(b []byte, x *lineage.Call) []byte {
		b = appendIdentity(appendText(appendText(b, x.ID), x.Tool), x.Agent)
		return binary.AppendUvarint(binary.AppendUvarint(b, x.Began), x.Ended())
	})
}

func appendIdentity(b []byte, id tracer.Identity) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(id.PID)), id.Start)
}

// unpacked is what has been read of a block's claims.
type unpacked struct {
	traces []lineage.Trace
	calls  []*lineage.Call
}

// claim is the inverse of append.
func (d *decoder) claim(t *unpacked) *lineage.Claim {
	var c lineage.Claim
	if n := d.uint(uint64(len(t.traces) + 1)); n > 0 {
		if n > uint64(len(t.traces)) {
			t.traces = append(t.traces, d.trace())
		}
		c.Trace = t.traces[n-1]
	}
	for range d.uint(maxCalls) {
		c.Calls = append(c.Calls, d.callOf(t))
	}
	if c.Calls == nil && c.Trace == (lineage.Trace{}) {
		return nil
	}
	return &c
}

// callOf is the inverse of call.
func (d *decoder) callOf(t *unpacked) *lineage.Call {
	x := shared(d, &t.calls, d.call)
	if x == nil {
		d.b, d.bad = nil, true
	}
	return x
}

func (d *decoder) trace() (x lineage.Trace) {
	x.Sampled = d.bytes(1)[0] != 0
	copy(x.ID[:], d.bytes(uint64(len(x.ID))))
	copy(x.Span[:], d.bytes(uint64(len(x.Span))))
	x.From = d.identity()
	return x
}

func (d *decoder) call() *lineage.Call {
	x := &lineage.Call{ID: string(d.text()), Tool: string(d.text()), Agent: d.identity(), Began: d.uint(^uint64(0))}
	x.End(d.uint(^uint64(0)))
	return x
}
