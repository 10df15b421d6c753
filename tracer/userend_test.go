//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// Two sentences at level 2 at the same time, by the same process or by two with
// the same pins: neither fails for the other's syscall closer, and what one of
// them does without it is done with it as soon as it can.
func TestSentencesAtOnce(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t), Level: 2}
	first := tracertest.New(t, o)
	second := tracertest.New(t, o)
	closer, err := first.AttachCloser()
	if err != nil || closer == nil {
		t.Fatalf("%v, %v", closer, err)
	}
	w := program(t, "ignoreterm")
	id := create(t, second, w, tracer.SessionSpec{})
	w.goOn()
	w.until("ready")
	if err := second.Condemn(id); err != nil {
		t.Fatal(err)
	}
	sentenced(t, second, id)
	w.gone()
	w.cmd.Wait()
	settled(t, second, id)

	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "it can be attached", func() bool { // once no fork in between holds it
		closer, err = second.AttachCloser()
		return err != nil || closer != nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
}
