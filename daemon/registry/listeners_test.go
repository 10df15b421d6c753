//go:build linux

package registry

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/daemon/sockets"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// told has the registry apply what the kernel has sent since.
func told(t *testing.T, o *Registry, k *kerneltest.Kernel) {
	t.Helper()
	if err := k.Flush(); err != nil {
		t.Fatal(err)
	}
	var batch []tracer.Event
	for {
		var ev tracer.Event
		if err := k.Read(&ev); errors.Is(err, tracer.ErrFlushed) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, ev)
	}
	o.apply(batch)
}

func addresses(h resources.Held) (all []string) {
	for _, p := range h.Ports {
		all = append(all, p.String())
	}
	return all
}

// A port is known from the event on, until its last socket is closed, in each session that its
// process is in.
func TestListeners(t *testing.T) {
	o, k := newRegistry(t)
	outer := session(t, o, k, 100)
	k.Fork(100, 101, "lngtest-inner")
	inner, err := o.create(tracer.SessionSpec{Root: k.Proc(101).Identity, UID: 1000})
	if err != nil {
		t.Fatal(err)
	}
	k.Listen(100, 1, "127.0.0.1:80")
	k.Listen(101, 2, "[::]:8080")
	k.Listen(101, 3, "[::]:8080") // SO_REUSEPORT
	k.Listen(1, 4, "127.0.0.1:22")
	told(t, o, k)
	for _, c := range []struct {
		what string
		do   func()
		outer,
		inner []int
	}{
		{"told", func() {}, []int{80, 8080}, []int{8080}},
		{"one of two closed", func() { k.Unlisten(2) }, []int{80, 8080}, []int{8080}},
		{"both closed", func() { k.Unlisten(3) }, []int{80}, nil},
		{"closed twice", func() { k.Unlisten(3); k.Unlisten(4) }, []int{80}, nil},
		{"no port yet", func() { k.Listen(101, 5, "0.0.0.0:0") }, []int{80}, nil},
	} {
		c.do()
		told(t, o, k)
		if got := o.view().ports(outer); !slices.Equal(got, c.outer) {
			t.Errorf("%s: outer session: %v, want %v", c.what, got, c.outer)
		}
		if got := o.view().ports(inner); !slices.Equal(got, c.inner) {
			t.Errorf("%s: inner session: %v, want %v", c.what, got, c.inner)
		}
	}
	if len(o.ending) != 1 {
		t.Error("nobody looks for a port that the kernel could not tell")
	}
}

// The event of a close that comes late does not remove the port of a newer socket, which has the
// same address in the kernel.
func TestLateUnlisten(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	k.Listen(100, 1, "127.0.0.1:80")
	told(t, o, k)
	first := *o.listeners.open[1]
	k.Unlisten(1)
	k.DropEvents()
	k.Listen(100, 1, "127.0.0.1:81")
	told(t, o, k)
	o.listeners.ends(&tracer.Event{Type: tracer.EventUnlisten, Socket: 1, Since: first.Since, Session: s.info.ID})
	if got := o.view().ports(s); !slices.Equal(got, []int{81}) {
		t.Errorf("%v, want the newer one", got)
	}
}

// What a look found and what the kernel reported are one port; a look that began before a socket
// was closed does not bring it back.
func TestListenersAndLooks(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	k.Listen(100, 1, "127.0.0.1:80")
	told(t, o, k)
	look := func() resources.Held {
		p := o.listeners.open[1].Port
		p.Netns = 7
		return resources.Held{Ports: []resources.Port{p, {Proto: "udp", Local: p.Local, Holder: p.Holder}}}
	}
	held, began := look(), o.clock.Boottime()
	s.seen(held, began)
	want := []string{"tcp 127.0.0.1:80", "udp 127.0.0.1:80"}
	if h := s.Held(); !slices.Equal(addresses(h), want) || h.Ports[0].Netns != 7 {
		t.Errorf("while it is open: %+v, want %v", h.Ports, want)
	}
	held = look()
	k.Unlisten(1)
	told(t, o, k)
	want = want[1:]
	if h := s.Held(); !slices.Equal(addresses(h), want) {
		t.Errorf("closed: %+v, want %v", h.Ports, want)
	}
	s.seen(held, began)
	if h := s.Held(); !slices.Equal(addresses(h), want) {
		t.Errorf("closed, and then found by a look that began before: %+v, want %v", h.Ports, want)
	}
	k.Advance(time.Second)
	s.seen(held, o.clock.Boottime())
	if h := s.Held(); len(h.Ports) != 2 {
		t.Errorf("open again: %+v", h.Ports)
	}
}

// A receipt has what was open when the end began, and nothing that was closed before, however
// shortly: a server that looks for a free address opens and closes some.
func TestListenersAtEnd(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	for i, port := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"} {
		k.Listen(100, uint64(i)+1, port)
	}
	k.Unlisten(1)
	k.Advance(time.Minute)
	k.Unlisten(2)
	k.Advance(time.Millisecond)
	s.info.State, s.info.EndedAt = tracer.StateCondemned, o.clock.Boottime()
	k.Advance(time.Minute) // to be killed can take long
	k.Unlisten(3)
	session(t, o, k, 200)
	k.Listen(200, 5, "127.0.0.1:3") // somebody else has it by now
	told(t, o, k)
	want := []string{"tcp 127.0.0.1:3", "tcp 127.0.0.1:4"}
	if h := o.heldAtEnd(s); !slices.Equal(addresses(h), want) {
		t.Fatalf("%v, want %v", addresses(h), want)
	}
	f := sockets.Freed(t.Context(), k, o.holds, o.heldAtEnd(s).Ports)
	if got := addresses(resources.Held{Ports: f.Ports}); !slices.Equal(got, want[:1]) || len(f.Busy) != 1 || f.Busy[0].String() != want[1] {
		t.Errorf("freed %v, busy %v", got, f.Busy)
	}
}

// A daemon that takes over, and one that lost events, gets the kernel's list.
func TestRelisten(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	k.Listen(100, 1, "127.0.0.1:1")
	told(t, o, k)
	k.Unlisten(1)
	k.Listen(100, 1, "127.0.0.1:2") // the kernel uses the address of a socket again
	k.Listen(100, 2, "127.0.0.1:3")
	k.DropEvents()
	if err := o.listeners.relist(); err != nil {
		t.Fatal(err)
	}
	if got := o.view().ports(s); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("%v", got)
	}
	k.Unlisten(2)
	k.DropEvents()
	if err := o.listeners.relist(); err != nil || !slices.Equal(o.view().ports(s), []int{2}) {
		t.Errorf("%v %v", o.view().ports(s), err)
	}
}

// The port of a process that was moved to another session moves with it.
func TestRehouse(t *testing.T) {
	o, k := newRegistry(t)
	from := session(t, o, k, 100)
	k.Fork(100, 101, "lngtest-kept")
	k.Listen(101, 1, "127.0.0.1:1")
	told(t, o, k)
	to, err := o.create(tracer.SessionSpec{Root: k.Proc(101).Identity, KeptFrom: from.info.ID, MaxLifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	told(t, o, k)
	from.held.Ports = []resources.Port{o.listeners.open[1].Port} // of the last look
	o.listeners.rehouse()
	if len(o.view().ports(from)) != 0 || !slices.Equal(o.view().ports(to), []int{1}) {
		t.Errorf("from %v to %v", o.view().ports(from), o.view().ports(to))
	}
	k.Unlisten(1)
	told(t, o, k)
	if len(o.view().ports(to)) != 0 || len(o.listeners.open) != 0 {
		t.Errorf("closed: %v, %d sockets", o.view().ports(to), len(o.listeners.open))
	}
}
