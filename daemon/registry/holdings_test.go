//go:build linux

package registry

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestLook: a port that a process outside shares stays busy until that closes it; a
// receipt waits for that, but not longer than it may.
func TestLook(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	me := tracer.Identity{PID: uint32(os.Getpid()), Start: 1}
	o := &Registry{tracker: tracker{holds: resources.New("/proc", func(pid uint32) (tracer.Identity, error) { return tracer.Identity{PID: pid, Start: 1}, nil })}}
	held := o.holds.Of(t.Context(), []tracer.Identity{me})
	held.Ports = slices.DeleteFunc(held.Ports, func(p resources.Port) bool { return p.Local.String() != l.Addr().String() })
	held.Locks = nil
	if len(held.Ports) != 1 {
		t.Fatalf("%+v", held)
	}
	a := o.look(held, "", nil, tracer.Identity{}, 0)
	if len(a.freed.Busy) != 1 || len(a.freed.Ports) != 0 {
		t.Errorf("while it is shared: %+v", a.freed)
	}
	// A machine that had no time to find the holder reports that.
	if len(a.freed.Unknown) == 0 && a.freed.Busy[0].Holder != me {
		t.Errorf("shared by %v, want %v", a.freed.Busy[0].Holder, me)
	}
	waited := make(chan *aftermath)
	go func() { waited <- o.look(held, "", nil, tracer.Identity{}, time.Minute) }()
	l.Close()
	if a := <-waited; len(a.freed.Busy) != 0 || len(a.freed.Ports) != 1 {
		t.Errorf("afterwards: %+v", a.freed)
	}
}

// TestHeldAtEnd: a receipt has what a member, or the root, held when the end began: not what the last
// look found at a process that has exited before, or that is in another session now.
func TestHeldAtEnd(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	for _, pid := range []uint32{101, 102, 103, 104} {
		k.Fork(100, pid, "lngtest")
	}
	told(t, o, k)
	for _, pid := range []uint32{100, 101, 102, 103, 104} {
		id, name := k.Proc(pid).Identity, fmt.Sprint(pid)
		s.held.Ports = append(s.held.Ports, resources.Port{Proto: "udp", Path: name, Holder: id})
		s.held.Locks = append(s.held.Locks, resources.Lock{Kind: "flock", Path: name, Holder: id})
	}
	at := func(ended uint64) (ports, locks []string) {
		told(t, o, k)
		s.info.State, s.info.EndedAt = tracer.StateCondemned, ended
		h := o.heldAtEnd(s)
		for _, p := range h.Ports {
			ports = append(ports, p.Path)
		}
		for _, l := range h.Locks {
			locks = append(locks, l.Path)
		}
		return ports, locks
	}
	k.Exit(101, 0)
	if _, err := o.create(tracer.SessionSpec{Root: k.Proc(104).Identity, KeptFrom: s.info.ID, MaxLifetime: time.Hour}); err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Second)
	began := o.clock.Boottime()
	k.Advance(time.Second)
	k.Exit(102, 0)
	want := []string{"100", "102", "103"}
	if ports, locks := at(began); !slices.Equal(ports, want) || !slices.Equal(locks, want) {
		t.Errorf("ports %q, locks %q, want %q", ports, locks, want)
	}
	k.Exit(100, 0)
	want = want[:1] // the exit of the root begins the end, whichever of the two times is the later one
	if ports, locks := at(o.clock.Boottime() + 1); !slices.Equal(ports, want) || !slices.Equal(locks, want) {
		t.Errorf("after the root: ports %q, locks %q, want %q", ports, locks, want)
	}
}

// TestSeen: once an end has begun nothing is removed, and before that only a complete
// reading replaces the previous one.
func TestSeen(t *testing.T) {
	port := func(pid uint32) resources.Port {
		return resources.Port{Proto: "unix", Path: "/a", Holder: tracer.Identity{PID: pid, Start: 1}}
	}
	lock := func(pid uint32) resources.Lock {
		return resources.Lock{Kind: "flock", Path: "/a", Holder: tracer.Identity{PID: pid, Start: 1}}
	}
	of := func(pids ...uint32) (h resources.Held) {
		for _, pid := range pids {
			h.Ports, h.Locks = append(h.Ports, port(pid)), append(h.Locks, lock(pid))
		}
		return h
	}
	broken := of(2)
	broken.Unknown = []string{"timed out"}
	for _, c := range []struct {
		name  string
		state tracer.State
		now   resources.Held
		want  int
	}{
		{"active", tracer.StateActive, of(2), 1},
		{"active, not all read", tracer.StateActive, broken, 2},
		{"ending", tracer.StateEnding, of(2), 2},
		{"ending, the same", tracer.StateEnding, of(1), 1},
		{"condemned, all dead", tracer.StateCondemned, of(), 1},
	} {
		s := &Session{info: tracer.SessionInfo{State: c.state}}
		s.held = of(1)
		s.seen(c.now, 0)
		if len(s.held.Ports) != c.want || len(s.held.Locks) != c.want {
			t.Errorf("%s: %+v", c.name, s.held)
		}
	}
}

// What a session's last members held is not reported once they are gone.
func TestGoneHoldNothing(t *testing.T) {
	o, k := newRegistry(t)
	x := session(t, o, k, 100)
	o.graph.Resync(1, []lineage.Seen{{ID: x.info.Root, Session: x.info.ID, Evidence: lineage.Root, RSS: 160 << 20}})
	x.held.Ports = []resources.Port{{Proto: "tcp", Local: netip.MustParseAddrPort("127.0.0.1:80")}}
	for _, c := range []struct{ live, dying, ports int }{{1, 0, 1}, {0, 1, 1}, {0, 0, 0}} {
		x.info.Live, x.info.Dying = int64(c.live), int64(c.dying)
		if d := o.view().Document(x, access.Caller{}); len(d.Ports) != c.ports || (d.RSSBytes != 0) != (c.ports != 0) {
			t.Errorf("%+v: ports %v, rss %d", c, d.Ports, d.RSSBytes)
		}
	}
}
