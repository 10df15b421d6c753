//go:build linux

package history

import (
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (w *wire) signal(s *lineage.Signal) {
	octet(w, &s.Number)
	octet(w, &s.Sender)
	w.bits(&s.Handled, &s.Raised, &s.Passed)
	number(w, &s.Time)
	w.identity(&s.By)
	number(w, &s.Session)
	number(w, &s.UID)
	text(w, &s.Comm)
}

func (w *wire) crossing(c *tracer.Crossing) {
	octet(w, &c.Signal)
	w.bits(&c.Refused)
	w.identity(&c.To)
	number(w, &c.Session)
	number(w, &c.UID)
	text(w, &c.Comm)
}
