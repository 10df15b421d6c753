//go:build linux

package recent

import (
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
)

func TestRing(t *testing.T) {
	r := New(100, 4)
	nobody := func(tracer.SessionID) *About { return nil }
	buf := make([]Event, 10)
	if n, first, wake := r.Read(100, buf); n != 0 || first != 100 || wake == nil {
		t.Errorf("empty: %d %d", n, first)
	}
	_, _, wake := r.Read(100, buf)
	r.add(make([]tracer.Event, 3), nobody)
	r.wakeUp()
	<-wake
	if n, first, _ := r.Read(101, buf); n != 2 || first != 101 || buf[0].Seq != 101 || buf[1].Seq != 102 {
		t.Errorf("%d %d %+v", n, first, buf[:2])
	}
	r.add(make([]tracer.Event, 3), nobody)
	if n, first, _ := r.Read(100, buf); n != 4 || first != 102 || r.End() != 106 {
		t.Errorf("fell off: %d %d", n, first)
	}
	if n, first, _ := r.Read(106, buf); n != 0 || first != 106 {
		t.Errorf("at the end: %d %d", n, first)
	}
	r.add([]tracer.Event{{Argv: make([]byte, Bytes-1)}, {Argv: make([]byte, 2)}}, nobody)
	if n, first, _ := r.Read(100, buf); n != 1 || first != 107 {
		t.Errorf("too many bytes: %d from %d", n, first)
	}
}
