//go:build linux

package holdings

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A port is known from the event on, until its last socket is closed, in each session that its
// process is in.
func TestListeners(t *testing.T) {
	f := newFixture(t)
	outer := f.registry.Session(100, 1000)
	f.k.Fork(100, 101, "lngtest-inner")
	inner := f.registry.Create(tracer.SessionSpec{Root: f.k.Proc(101).Identity, UID: 1000})
	f.k.Listen(100, 1, "127.0.0.1:80")
	f.k.Listen(101, 2, "[::]:8080")
	f.k.Listen(101, 3, "[::]:8080") // SO_REUSEPORT
	f.k.Listen(1, 4, "127.0.0.1:22")
	f.apply()
	for _, c := range []struct {
		what string
		do   func()
		outer,
		inner []int
	}{
		{"told", func() {}, []int{80, 8080}, []int{8080}},
		{"one of two closed", func() { f.k.Unlisten(2) }, []int{80, 8080}, []int{8080}},
		{"both closed", func() { f.k.Unlisten(3) }, []int{80}, nil},
		{"closed twice", func() { f.k.Unlisten(3); f.k.Unlisten(4) }, []int{80}, nil},
		{"no port yet", func() { f.k.Listen(101, 5, "0.0.0.0:0") }, []int{80}, nil},
	} {
		c.do()
		f.apply()
		f.holds(c.what+": outer session", outer, c.outer...)
		f.holds(c.what+": inner session", inner, c.inner...)
	}
	if len(f.ending) != 1 {
		t.Error("nobody looks for a port that the kernel could not tell")
	}
}

// The kernel uses the address of a socket again: the earlier one was closed, although the event of that was lost. If it
// comes late it does not remove the port of the newer socket.
func TestLateUnlisten(t *testing.T) {
	f := newFixture(t)
	first, second := f.registry.Session(100, 1000), f.registry.Session(200, 1000)
	f.k.Listen(100, 1, "127.0.0.1:80")
	f.apply()
	since := f.open[1].since
	f.k.Unlisten(1)
	f.k.DropEvents()
	f.k.Listen(200, 1, "127.0.0.1:81")
	f.apply()
	f.holds("the earlier one", first)
	f.registry.Update(func(tx registry.Tx) {
		tx.Apply([]tracer.Event{{Type: tracer.EventUnlisten, Socket: 1, Since: since, Session: second.ID()}})
	})
	f.holds("the newer one", second, 81)
}

// What a look found and what the kernel reported are one port, as long as one of its sockets is open; a look that began
// before a socket was closed does not bring it back.
func TestListenersAndLooks(t *testing.T) {
	f := newFixture(t)
	s := f.registry.Session(100, 1000)
	f.k.Listen(100, 1, "127.0.0.1:80")
	f.apply()
	p := f.open[1].port
	p.Netns = 7
	look := func() Held {
		return Held{Ports: []Port{p, {Proto: "udp", Local: p.Local, Holder: p.Holder}}}
	}
	note := func(began uint64) { f.registry.Update(func(tx registry.Tx) { f.Note(tx.View, s, look(), began) }) }
	began := f.o.Clock.Boottime()
	note(began)
	want := []string{"tcp 127.0.0.1:80", "udp 127.0.0.1:80"}
	if h := f.now(s); !slices.Equal(addresses(h), want) || h.Ports[0].Netns != 7 {
		t.Errorf("while it is open: %+v, want %v", h.Ports, want)
	}
	f.k.Unlisten(1)
	f.apply()
	want = want[1:]
	if h := f.now(s); !slices.Equal(addresses(h), want) {
		t.Errorf("closed: %+v, want %v", h.Ports, want)
	}
	note(began)
	if h := f.now(s); !slices.Equal(addresses(h), want) {
		t.Errorf("closed, and then found by a look that began before: %+v, want %v", h.Ports, want)
	}
	f.k.Advance(time.Second)
	note(f.o.Clock.Boottime())
	if h := f.now(s); len(h.Ports) != 2 || h.Ports[0].Netns != 7 {
		t.Errorf("open again: %+v", h.Ports)
	}
	f.k.Listen(100, 2, "127.0.0.1:80")
	f.k.Listen(100, 3, "127.0.0.1:80") // SO_REUSEPORT
	f.k.Unlisten(2)
	f.apply()
	if h := f.now(s); len(h.Ports) != 2 || h.Ports[0].Netns != 7 {
		t.Errorf("one of two is open: %+v", h.Ports)
	}
}

// A receipt has what was open when the end began, and nothing that was closed before, however
// shortly: a server that looks for a free address opens and closes some.
func TestListenersAtEnd(t *testing.T) {
	f := newFixture(t)
	s := f.registry.Session(100, 1000)
	for i, port := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:6"} {
		f.k.Listen(100, uint64(i)+1, port)
	}
	f.k.Unlisten(1)
	f.k.Advance(time.Minute)
	f.k.Unlisten(2)
	f.k.Advance(time.Millisecond)
	f.registry.Update(func(tx registry.Tx) {
		tx.Apply([]tracer.Event{{Type: tracer.EventSession, Session: s.ID(), State: tracer.StateCondemned, Cause: tracer.CauseEnd, Time: f.o.Clock.Boottime()}})
	})
	f.k.Advance(time.Minute) // to be killed can take long
	f.k.Unlisten(3)
	f.k.Advance(time.Minute)
	f.k.Unlisten(5)
	f.registry.Session(200, 1000)
	f.k.Listen(200, 9, "127.0.0.1:3") // somebody else has it by now
	f.apply()
	want := []string{"tcp 127.0.0.1:3", "tcp 127.0.0.1:6", "tcp 127.0.0.1:4"}
	var held Held
	f.registry.Update(func(tx registry.Tx) {
		info := s.Info()
		held = atEnd(tx.View, &info, f.sessions[s.ID()])
	})
	if got := addresses(held); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Fatalf("%v, want %v", got, want)
	}
	freed := f.freed(t.Context(), held.Ports)
	busy, _ := f.holders(t.Context(), freed.Busy) // nobody knows the holder
	if got := addresses(Held{Ports: freed.Ports}); !slices.Equal(got, want[:2]) || len(busy) != 1 || busy[0].String() != want[2] {
		t.Errorf("freed %v, busy %v", got, busy)
	}
	f.k.Fail("Listeners", errors.New("not now"))
	if a := f.look(held, "", nil, tracer.Identity{}, 0); !slices.Contains(a.unknown, "ports: not now") {
		t.Errorf("the kernel does not answer: %+v", a)
	}
}

// A daemon that takes over, and one that lost events, gets the kernel's list.
func TestRelisten(t *testing.T) {
	f := newFixture(t)
	s := f.registry.Session(100, 1000)
	f.k.Listen(100, 1, "127.0.0.1:1")
	f.apply()
	f.k.Unlisten(1)
	f.k.Listen(100, 1, "127.0.0.1:2") // the kernel uses the address of a socket again
	f.k.Listen(100, 2, "127.0.0.1:3")
	f.k.DropEvents()
	relist := func() error {
		_, err := f.registry.R.Resync(registry.CauseLost)
		return err
	}
	require.NoError(t, relist())
	f.holds("after losses", s, 2, 3)
	f.k.Unlisten(2)
	f.k.DropEvents()
	require.NoError(t, relist())
	f.holds("after one more", s, 2)
}

// The port of a process that was moved to another session moves with it.
func TestRehouse(t *testing.T) {
	f := newFixture(t)
	from := f.registry.Session(100, 1000)
	f.k.Fork(100, 101, "lngtest-kept")
	f.k.Listen(101, 1, "127.0.0.1:1")
	f.apply()
	to := f.registry.Create(tracer.SessionSpec{Root: f.k.Proc(101).Identity, KeptFrom: from.ID(), MaxLifetime: time.Hour})
	f.sessions[from.ID()].looked.Ports = []Port{f.open[1].port} // of the last look
	_, err := f.registry.R.Resync(registry.CauseNone)
	require.NoError(t, err)
	if f.holds("from", from); len(f.now(from).Ports) != 0 {
		t.Error("the session from which it came still holds the port")
	}
	f.holds("to", to, 1)
	f.k.Unlisten(1)
	f.apply()
	if f.holds("closed", to); len(f.open) != 0 {
		t.Errorf("closed: %d sockets", len(f.open))
	}
}

// Whatever members open and close, a session has a bounded number of sockets, and of ports.
func TestSocketsBounded(t *testing.T) {
	var s sockets
	for n := range 4 * maxSockets {
		k := &socket{id: uint64(n), port: Port{Proto: "tcp", Local: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(n+1))}}
		if s.add(k); n < 2*maxSockets {
			s.close(k, 1)
		}
	}
	if ports := s.held(nil, 0); len(s.open) != maxSockets || len(s.closed) != maxSockets || len(ports) != maxSockets {
		t.Errorf("%d open, %d closed, %d ports", len(s.open), len(s.closed), len(ports))
	}
}

// A port goes with its process once the registry has the session that the process is in now.
func TestRehoused(t *testing.T) {
	f := newFixture(t)
	f.registry.Session(100, 1000)
	f.k.Fork(100, 101, "lngtest-member")
	f.k.Listen(101, 1, "127.0.0.1:80")
	f.apply()
	f.k.Fail("Session", errors.New("not now"))
	id, err := f.k.Create(tracer.SessionSpec{Root: f.k.Proc(101).Identity})
	require.NoError(t, err)
	f.apply()
	var s *registry.Session
	for range 2 {
		f.registry.Update(func(tx registry.Tx) { s = tx.Ask(id); f.rehouse(tx.View) })
		f.k.Fail("Session", nil)
	}
	f.holds("its new session", s, 80)
}
