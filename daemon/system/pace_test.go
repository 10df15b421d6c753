//go:build linux

package system

import (
	"testing"
	"time"
)

// Work that waits has the least rest, however long it waits; work that uses a CPU has more.
func TestWork(t *testing.T) {
	w := PacedWork{Least: time.Millisecond, Share: 10}
	w.Begin()
	time.Sleep(50 * time.Millisecond)
	if rest := w.End(); rest > 100*time.Millisecond {
		t.Errorf("rests %v after it slept for 50ms", rest)
	}
	w.Begin()
	for began := ThreadTime(); ThreadTime()-began < 20*time.Millisecond; {
	}
	if rest := w.End(); rest < 200*time.Millisecond || rest > 2*time.Second {
		t.Errorf("rests %v after it used a CPU for 20ms", rest)
	}
	elsewhere := time.Duration(0)
	w.Elsewhere = func() time.Duration { return elsewhere }
	w.Begin()
	elsewhere += 20 * time.Millisecond
	if rest := w.End(); rest < 200*time.Millisecond || rest > 2*time.Second {
		t.Errorf("rests %v after another thread used a CPU for 20ms", rest)
	}
}
