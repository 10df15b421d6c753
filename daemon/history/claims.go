//go:build linux

package history

import "github.com/lineage-ebpf/lineage/lineage"

const maxCalls = 256

// claim is what a member claims; nil: nothing.
func (w *wire) claim(c **lineage.Claim) {
	var x lineage.Claim
	if *c != nil {
		x = **c
	}
	w.traces.item(w, &x.Trace, func(t *lineage.Trace) {
		w.bits(&t.Sampled)
		w.bytes(t.ID[:])
		w.bytes(t.Span[:])
		w.identity(&t.From)
	})
	for i := range w.count(uint64(len(x.Calls)), maxCalls) {
		if w.reading {
			x.Calls = append(x.Calls, nil)
		}
		w.call(&x.Calls[i])
	}
	if w.reading && (x.Calls != nil || x.Trace != lineage.Trace{}) {
		*c = &x
	}
}

func (w *wire) call(x **lineage.Call) {
	w.calls.item(w, x, func(x **lineage.Call) {
		c := made(w, x)
		text(w, &c.ID)
		text(w, &c.Tool)
		w.identity(&c.Agent)
		number(w, &c.Began)
		if ended := w.count(c.Ended(), ^uint64(0)); w.reading {
			c.End(ended)
		}
	})
	if w.reading && *x == nil {
		w.fail()
	}
}
