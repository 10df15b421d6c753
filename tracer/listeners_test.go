//go:build linux

package tracer_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// server is a workload that listens on the given addresses.
type server struct {
	*workload
	t      *testing.T
	tr     *tracer.Tracer
	dir    string // of its pins
	id     tracer.SessionID
	events chan tracer.Event // of sockets
}

// newServer returns one that is in no session.
func newServer(t *testing.T, o tracer.Options) *server {
	o.Dir = tracertest.Dir(t)
	s := &server{workload: program(t, "listen"), t: t, tr: tracertest.New(t, o), dir: o.Dir, events: make(chan tracer.Event, 16)}
	s.goOn()
	s.until("ready")
	events := collect(t, s.tr) // not of a tracer that replaces it
	go func() {
		for ev := range events {
			if ev.Type == tracer.EventListen || ev.Type == tracer.EventUnlisten {
				s.events <- ev
			}
		}
	}()
	return s
}

func newMember(t *testing.T, o tracer.Options) *server {
	s := newServer(t, o)
	s.join()
	return s
}

func (s *server) join() { s.id = create(s.t, s.tr, s.workload, tracer.SessionSpec{}) }

// open makes the server listen, and returns the descriptor and the port.
func (s *server) open(how string) (fd int, port uint16) {
	s.t.Helper()
	s.tell("open " + how)
	line := s.until("open")
	if _, err := fmt.Sscanf(line, "open %d %d", &fd, &port); err != nil {
		s.t.Fatalf("%q: %v", line, err)
	}
	if fd < 0 {
		s.t.Fatalf("open %s: %v", how, unix.Errno(port))
	}
	return fd, port
}

func (s *server) close(fd int) {
	s.t.Helper()
	s.tell(fmt.Sprintf("close %d", fd))
	s.until("close")
}

// event returns the next event of a socket, which must be the server's.
func (s *server) event(what tracer.EventType) tracer.Event {
	s.t.Helper()
	ev, _ := receive(s.t, "an event of a socket", s.events)
	if ev.Type != what || ev.Process.PID != s.pid() || ev.Session != s.id || ev.Socket == 0 || ev.Time == 0 {
		s.t.Fatalf("want type %d of PID %d in %v, got %+v", what, s.pid(), s.id, ev)
	}
	return ev
}

func (s *server) closed(began tracer.Event) {
	s.t.Helper()
	if over := s.event(tracer.EventUnlisten); !same(over, began) {
		s.t.Errorf("closed %+v, opened %+v", over, began)
	}
}

// silent proves that nothing was reported until now.
func (s *server) silent() {
	s.t.Helper()
	fd, _ := s.open("4 tcp 0 0")
	s.event(tracer.EventListen)
	s.close(fd)
	s.event(tracer.EventUnlisten)
}

func (s *server) listeners() (all []tracer.Event) {
	s.t.Helper()
	require.NoError(s.t, s.tr.Listeners(func(ev *tracer.Event) { all = append(all, *ev) }))
	return all
}

// same reports whether two events are about one socket and its listener.
func same(a, b tracer.Event) bool {
	return a.Socket == b.Socket && a.Since == b.Since && a.Since != 0 && a.Address == b.Address && a.Process == b.Process && a.Session == b.Session
}

// Each socket that a member listens on gives one event when it begins and one when it is closed,
// with the same key.
func TestListen(t *testing.T) { everySide(t, testListen) }

func testListen(t *testing.T, o tracer.Options) {
	loopback := map[string]netip.Addr{"4": netip.MustParseAddr("127.0.0.1"), "6": netip.IPv6Loopback()}
	ways := []string{"4 tcp 0 0", "6 tcp 0 0", "4 tcp 0 1"}
	if _, err := os.Stat("/proc/sys/net/mptcp"); err == nil { // Debian's 5.10 is built without it
		ways = append(ways, "4 mptcp 0 0", "6 mptcp 0 0")
	}
	for _, how := range ways {
		t.Run(how, func(t *testing.T) {
			s := newMember(t, o)
			fd, port := s.open(how)
			began := s.event(tracer.EventListen)
			want := netip.AddrPortFrom(loopback[how[:1]], port)
			require.Equal(t, began.Address, want)
			if l := s.listeners(); len(l) != 1 || !same(l[0], began) || l[0].Time == 0 {
				t.Errorf("the kernel has %+v", l)
			}
			s.close(fd)
			s.closed(began)
			if l := s.listeners(); len(l) != 0 {
				t.Errorf("the kernel still has %+v", l)
			}
			s.silent()
		})
	}
}

// Sockets that share a port are distinct, and one that was bound to its port explicitly
// behaves like any other.
func TestListenShared(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		s := newMember(t, o)
		first, port := s.open("4 tcp 0 1")
		a := s.event(tracer.EventListen)
		second, _ := s.open(fmt.Sprintf("4 tcp %d 1", port))
		b := s.event(tracer.EventListen)
		if a.Address != b.Address || a.Socket == b.Socket || len(s.listeners()) != 2 {
			t.Fatalf("%+v and %+v", a, b)
		}
		s.close(second)
		s.closed(b)
		s.close(first)
		s.closed(a)
	})
}

// A process that listens without a bind gets a port only after the kernel's report: the port in it is 0.
func TestListenWithoutBind(t *testing.T) {
	s := newMember(t, tracer.Options{})
	fd, _ := s.open("4 tcp -1 0")
	if ev := s.event(tracer.EventListen); ev.Address.Port() != 0 {
		t.Errorf("got %v", ev.Address)
	}
	s.close(fd)
	s.event(tracer.EventUnlisten)
}

// A listen that fails because the port is taken gives both events at once.
func TestListenRefused(t *testing.T) {
	s := newMember(t, tracer.Options{})
	fd, _ := s.open("4 tcp 0 1")
	a := s.event(tracer.EventListen)
	s.tell(fmt.Sprintf("open 4 tcp %d 0", a.Address.Port()))
	require.Equal(t, s.until("open"), fmt.Sprintf("open -1 %d", unix.EADDRINUSE))
	s.close(fd)
	s.closed(a)
}

// The socket is closed with its last reference, in any process: a member that inherited
// it, or an outsider that it was passed to.
func TestListenClosedByAnother(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		s := newMember(t, o)
		fd, _ := s.open("4 tcp 0 0")
		inherited := s.event(tracer.EventListen)
		s.tell("fork")
		var child uint32
		_, err := fmt.Sscanf(s.until("fork"), "fork %d", &child)
		require.NoError(t, err)
		s.close(fd)
		if l := s.listeners(); len(l) != 1 {
			t.Fatalf("the child holds the socket, the kernel has %+v", l)
		}
		require.NoError(t, unix.Kill(int(child), unix.SIGKILL))
		s.closed(inherited)

		fd, _ = s.open("4 tcp 0 0")
		passed := s.event(tracer.EventListen)
		p, err := unix.PidfdOpen(int(s.pid()), 0)
		require.NoError(t, err)
		defer unix.Close(p)
		ours, err := unix.PidfdGetfd(p, fd, 0)
		require.NoError(t, err)
		s.close(fd)
		if l := s.listeners(); len(l) != 1 {
			t.Fatalf("we hold the socket, the kernel has %+v", l)
		}
		unix.Close(ours)
		s.closed(passed)
	})
}

// A socket that was opened outside any session is not reported, neither when it began to
// listen nor when a member closes it.
func TestListenBeforeSession(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		s := newServer(t, o)
		fd, _ := s.open("4 tcp 0 0")
		s.join()
		s.close(fd)
		s.silent()
	})
}

// A session that does nothing but listen and close fills no ring: a few hundred sockets in some
// seconds are reported, the others are counted. What it listened on before, and the sockets
// of another session, are reported as usual.
func TestListenFlood(t *testing.T) { everySide(t, testListenFlood) }

func testListenFlood(t *testing.T, o tracer.Options) {
	const flood, most = 3000, 2 * 512 // LISTENS, in the time windows of this test
	s := newMember(t, o)
	before, port := s.open("4 tcp 0 0")
	first := s.event(tracer.EventListen)
	s.tell(fmt.Sprintf("flood %d", flood))
	s.until("flood")
	limited := counter(t, s.tr, "listen_limited")
	if limited < flood-most || limited >= flood {
		t.Errorf("%d of %d sockets were not reported", limited, flood)
	}
	if events := counter(t, s.tr, "events"); events > 2*(flood-limited)+100 {
		t.Errorf("%d events", events)
	}
	if all := s.listeners(); len(all) != 1 || all[0].Address.Port() != port || !same(all[0], first) {
		t.Errorf("%+v", all)
	}
	w := program(t, "listen")
	id := create(t, s.tr, w, tracer.SessionSpec{})
	w.goOn()
	w.until("ready")
	w.tell("open 4 tcp 0 0")
	w.until("open")
	if all := s.listeners(); len(all) != 2 || all[0].Session != id && all[1].Session != id {
		t.Errorf("another session: %+v", all)
	}
	s.close(before)
	if all := s.listeners(); len(all) != 1 || all[0].Session != id {
		t.Errorf("after the close: %+v", all)
	}
}

// A connection begins as a copy of its listener, and is not a listener.
func TestListenConnections(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		const rounds, connections = 10, 5000 // a round has an answer and an event in time
		s := newMember(t, o)
		for round := range rounds {
			s.tell(fmt.Sprintf("connect %d 0", connections))
			if round == 0 {
				s.event(tracer.EventListen)
			}
			s.until("connect")
			s.silent()
		}
		if l := s.listeners(); len(l) != 1 {
			t.Errorf("%d connections later the kernel has %+v", rounds*connections, l)
		}
		if missed, err := s.tr.RecursionMisses(); err != nil || missed["tcp_state"] != 0 {
			t.Errorf("connections count as missed births: %v, %v", missed, err)
		}
	})
}

// A tracer that takes over has the open sockets, and gets an event when they are closed.
func TestTakeOverListeners(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		s := newMember(t, o)
		fd, _ := s.open("6 tcp 0 0")
		gone, _ := s.open("4 tcp 0 0")
		s.close(gone)
		before := s.listeners()
		o.Dir = s.dir
		s.tr = tracertest.New(t, other(o))
		if after := s.listeners(); len(before) != 1 || len(after) != 1 || !same(before[0], after[0]) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
		s.close(fd)
		if l := s.listeners(); len(l) != 0 {
			t.Errorf("closed, and the kernel has %+v", l)
		}
	})
}
