//go:build linux

package history

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestRing(t *testing.T) {
	r := NewRing(100, 4)
	nobody := func(*tracer.Event) (*About, *api.Session) { return nil, nil }
	buf := make([]RecentEvent, 10)
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
	// Many users, each with as much as one may have, are too many bytes.
	for uid := range uint32(20) {
		ev := running(&lineage.Image{Exe: strings.Repeat("x", Bytes/3)})
		ev[0].UID = uid
		if r.add(ev, nobody); r.share.Used() > Bytes+Bytes/3 {
			t.Errorf("%d bytes", r.share.Used())
		}
	}
}

// running are events of processes that run these.
func running(all ...*lineage.Image) []tracer.Event {
	events := make([]tracer.Event, len(all))
	for i := range all {
		events[i].Image = all[i]
	}
	return events
}

// TestShared: a command line counts once for all events that have it, and to its own user. When the last
// of them is gone, nothing counts.
func TestShared(t *testing.T) {
	nobody := func(*tracer.Event) (*About, *api.Session) { return nil, nil }
	r := NewRing(1, RingSize)
	much := strings.Repeat("x", 100<<10)
	long := func(n int) *lineage.Image { return &lineage.Image{Comm: "x", Argv: []string{strconv.Itoa(n), much}} }
	one := long(0)
	r.add(running(slices.Repeat([]*lineage.Image{one}, RingSize)...), nobody)
	if _, first, _ := r.Read(1, nil); first != 1 || r.share.Used() != one.Size() {
		t.Errorf("the oldest is %d, %d bytes are counted, want %d", first, r.share.Used(), one.Size())
	}
	other := running(&lineage.Image{Comm: "y", Argv: []string{strings.Repeat("y", 1000)}})
	other[0].UID = 7
	for i := range RingSize - 1 { // of one user, 3 GB
		r.add(running(long(i)), nobody)
	}
	r.add(other, nobody)
	buf := make([]RecentEvent, RingSize)
	n, first, _ := r.Read(1, buf)
	last := buf[n-1].Image
	if n != RingSize || first != RingSize+1 || r.share.Used() > Bytes || last.Truncated || len(last.Argv[0]) != 1000 {
		t.Errorf("%d events from %d, %d bytes; another user's is cut: %v", n, first, r.share.Used(), last.Truncated)
	}
	if cut := buf[n-2].Image; !cut.Truncated || cut.Comm != "x" || len(cut.Argv) != 0 {
		t.Errorf("%+v of the user with too many", cut)
	}
	var shown []*api.Session // of events of sessions, whose documents have command lines too
	for uid := range RingSize {
		r.add(make([]tracer.Event, 1), func(*tracer.Event) (*About, *api.Session) {
			d := &api.Session{UID: 7 + uid/(RingSize-1), Root: &api.Process{Argv: []string{much}, FirstArgv: []string{much}}}
			shown = append(shown, d)
			return nil, d
		})
	}
	if used := r.share.Used(); used > Bytes || shown[RingSize-2].Root.Argv != nil || shown[RingSize-1].Root.FirstArgv == nil {
		t.Errorf("%d bytes, the first user's %+v, the second one's %+v", used, shown[RingSize-2].Root, shown[RingSize-1].Root)
	}
	r.add(make([]tracer.Event, RingSize), nobody)
	if r.share.Used() != 0 || len(r.texts) != 0 {
		t.Errorf("%d bytes of %d command lines at the end", r.share.Used(), len(r.texts))
	}
}
