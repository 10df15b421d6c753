//go:build linux

package holdings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// TestLook: a port that a process outside shares stays busy until that closes it; a
// receipt waits for that, but not longer than it may. A lock that another process has is held, unless that is the owner.
func TestLook(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "db"))
	require.NoError(t, err, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	defer file.Close()
	me := tracer.Identity{PID: uint32(os.Getpid()), Start: 1}
	h := newFixture(t)
	h.reader = NewReader("/proc", func(pid uint32) (tracer.Identity, error) { return tracer.Identity{PID: pid, Start: 1}, nil })
	held := h.reader.Of(t.Context(), []tracer.Identity{me})
	held.Ports = slices.DeleteFunc(held.Ports, func(p Port) bool { return p.Local.String() != l.Addr().String() })
	held.Locks = slices.DeleteFunc(held.Locks, func(l Lock) bool { return l.Path != file.Name() })
	if len(held.Ports) != 1 || len(held.Locks) != 1 {
		t.Fatalf("%+v", held)
	}
	a := h.look(held, "", nil, tracer.Identity{}, 0)
	if len(a.freed.Busy) != 1 || len(a.freed.Ports) != 0 {
		t.Errorf("while it is shared: %+v", a.freed)
	}
	for owner, want := range map[tracer.Identity]int{{PID: 1, Start: 1}: 1, me: 0} {
		if a := h.look(Held{Locks: held.Locks}, "", nil, owner, time.Minute); len(a.still) != want {
			t.Errorf("locks that are held, with the owner %v: %+v", owner, a.still)
		}
	}
	// A machine that had no time to find the holder reports that.
	if len(a.freed.Unknown) == 0 && a.freed.Busy[0].Holder != me {
		t.Errorf("shared by %v, want %v", a.freed.Busy[0].Holder, me)
	}
	beside := Port{Proto: "tcp", Local: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), held.Ports[0].Local.Port())}
	if busy, _ := h.holders(t.Context(), []Port{beside}); !slices.Equal(busy, []Port{beside}) {
		t.Errorf("another address: %+v", busy)
	}
	h.reader.Identify = func(pid uint32) (tracer.Identity, error) { // of a process that has the port
		l.Close()
		return tracer.Identity{PID: pid, Start: 1}, nil
	}
	if a := h.look(held, "", nil, tracer.Identity{}, time.Minute); len(a.freed.Busy) != 0 || len(a.freed.Ports) != 1 {
		t.Errorf("afterwards: %+v", a.freed)
	}
}

// TestAskedAtEnd: what a session holds is read at once when its end begins, also amid a pass, unless its members are
// killed already: they need the CPU to exit.
func TestAskedAtEnd(t *testing.T) {
	for grace, want := range map[time.Duration]int{0: 0, time.Second: 1} {
		f := newFixture(t)
		f.registry.Create(tracer.SessionSpec{Root: f.k.Add(100, 1, "lngtest").Identity, Grace: grace})
		f.k.Fork(100, 101, "lngtest")
		f.k.Exit(100, 0)
		_, err := f.k.Sentence()
		require.NoError(t, err)
		f.apply()
		if got := len(f.ending); got != want {
			t.Errorf("grace %v: %d requests, want %d", grace, got, want)
		}
		f.registry.Session(200, 1000)
		if f.pass(); len(f.ending) != 0 {
			t.Error("it waits for a look at a session that goes on")
		}
	}
}

// walking reports the walks over all processes.
type walking struct {
	*kerneltest.Kernel
	walks chan<- struct{}
}

func (k walking) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	select {
	case k.walks <- struct{}{}:
	default:
	}
	return k.Kernel.Snapshot(id, each)
}

// TestConcluding: until a look after the end is over no second one begins, and the next receipt needs a new one. It waits
// for no port while members are left.
func TestConcluding(t *testing.T) {
	f := newFixture(t)
	walks := make(chan struct{}, 100)
	f.o.Kernel = walking{f.k, walks}
	f.o.PortsWait = func() time.Duration { t.Error("it waits for ports"); return 0 }
	s := f.registry.Session(100, 1000)
	its := f.sessions[s.ID()]
	its.output = "pipe:[1]"
	for _, unread := range []error{nil, errors.New("not now")} {
		f.k.Fail("Snapshot", unread)
		f.registry.Update(func(tx registry.Tx) {
			if f.Hooks().Reported(tx.View, s); !f.concluding(tx.View, s, &api.Report{Started: 2}) || !f.concluding(tx.View, s, &api.Report{}) {
				t.Error("it does not wait for the look")
			}
		})
		require.Eventually(t, "it has looked", func() (over bool) {
			f.registry.Update(func(registry.Tx) { over = its.after != nil })
			return over
		})
	}
	if !slices.Equal(its.after.unknown, []string{"output: not now"}) || len(walks) != 2 {
		t.Errorf("not known: %q, %d looks", its.after.unknown, len(walks))
	}
}

// stuck is a kernel whose walks wait.
type stuck struct {
	*kerneltest.Kernel
	until <-chan struct{}
}

func (k stuck) Snapshot(tracer.SessionID, func(*tracer.Process) error) error {
	<-k.until
	return nil
}

// TestNobodyWaits: neither the registry nor a signal waits for a look that takes long.
func TestNobodyWaits(t *testing.T) {
	f := newFixture(t)
	over := make(chan struct{})
	f.o.Kernel = stuck{f.k, over}
	defer close(over)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range cap(f.ending) + 1 {
			f.ask(1)
		}
		f.CollectBefore(1)
	}()
	require.Soon(t, done, "it waits")
}

// TestHeldAtEnd: a receipt has what a member, or the root, held when the end began: not what the last
// look found at a process that has exited before, or that is in another session now.
func TestHeldAtEnd(t *testing.T) {
	f := newFixture(t)
	s := f.registry.Session(100, 1000)
	for _, pid := range []uint32{101, 102, 103, 104} {
		f.k.Fork(100, pid, "lngtest")
	}
	f.apply()
	its := f.sessions[s.ID()]
	for _, pid := range []uint32{100, 101, 102, 103, 104} {
		id, name := f.k.Proc(pid).Identity, fmt.Sprint(pid)
		its.looked.Ports = append(its.looked.Ports, Port{Proto: "udp", Path: name, Holder: id})
		its.looked.Locks = append(its.looked.Locks, Lock{Kind: "flock", Path: name, Holder: id})
	}
	at := func(ended uint64) (ports, locks []string) {
		f.apply()
		info := s.Info()
		info.EndedAt = ended
		f.registry.Update(func(tx registry.Tx) {
			h := atEnd(tx.View, &info, its)
			for _, p := range h.Ports {
				ports = append(ports, p.Path)
			}
			for _, l := range h.Locks {
				locks = append(locks, l.Path)
			}
		})
		return ports, locks
	}
	f.k.Exit(101, 0)
	f.registry.Create(tracer.SessionSpec{Root: f.k.Proc(104).Identity, KeptFrom: s.ID(), MaxLifetime: time.Hour})
	f.k.Advance(time.Second)
	began := f.o.Clock.Boottime()
	f.k.Advance(time.Second)
	f.k.Exit(102, 0)
	want := []string{"100", "102", "103"}
	if ports, locks := at(began); !slices.Equal(ports, want) || !slices.Equal(locks, want) {
		t.Errorf("ports %q, locks %q, want %q", ports, locks, want)
	}
	f.k.Exit(100, 0)
	want = want[:1] // the exit of the root begins the end, whichever of the two times is the later one
	if ports, locks := at(f.o.Clock.Boottime() + 1); !slices.Equal(ports, want) || !slices.Equal(locks, want) {
		t.Errorf("after the root: ports %q, locks %q, want %q", ports, locks, want)
	}
}

// TestSeen: once an end has begun nothing is removed, and before that only a complete
// reading replaces the previous one.
func TestSeen(t *testing.T) {
	port := func(pid uint32) Port {
		return Port{Proto: "unix", Path: "/a", Holder: tracer.Identity{PID: pid, Start: 1}}
	}
	lock := func(pid uint32) Lock {
		return Lock{Kind: "flock", Path: "/a", Holder: tracer.Identity{PID: pid, Start: 1}}
	}
	of := func(pids ...uint32) (h Held) {
		for _, pid := range pids {
			h.Ports, h.Locks = append(h.Ports, port(pid)), append(h.Locks, lock(pid))
		}
		return h
	}
	broken := of(2)
	broken.Unknown = []string{"timed out"}
	for _, c := range []struct {
		name   string
		active bool
		now    Held
		want   int
	}{
		{"active", true, of(2), 1},
		{"active, not all read", true, broken, 2},
		{"ending", false, of(2), 2},
		{"ending, the same", false, of(1), 1},
		{"condemned, all dead", false, of(), 1},
	} {
		h := &held{looked: of(1)}
		h.seen(c.now, 0, c.active)
		if len(h.looked.Ports) != c.want || len(h.looked.Locks) != c.want {
			t.Errorf("%s: %+v", c.name, h.looked)
		}
	}
}

// What a session's last members held is not reported once they are gone.
func TestGoneHoldNothing(t *testing.T) {
	f := newFixture(t)
	s := f.registry.Session(100, 1000)
	f.sessions[s.ID()].looked.Ports = []Port{{Proto: "tcp", Local: netip.MustParseAddrPort("127.0.0.1:80")}}
	for _, c := range []struct{ live, dying, ports int }{{1, 0, 1}, {0, 1, 1}, {0, 0, 0}} {
		var d api.Session
		f.registry.Update(func(tx registry.Tx) {
			record := tx.Record(s)
			record.Used.RSS, record.Info.Live, record.Info.Dying = 160<<20, int64(c.live), int64(c.dying)
			d = tx.Encoder().Session(record, access.Caller{})
		})
		if len(d.Ports) != c.ports || (d.RSSBytes != 0) != (c.ports != 0) {
			t.Errorf("%+v: ports %v, rss %d", c, d.Ports, d.RSSBytes)
		}
	}
}

// A look at procfs found ports of processes that have died or left since.
func TestPortsOfThoseWhoLeft(t *testing.T) {
	f := newFixture(t)
	s, other := f.registry.Session(100, 1000), f.registry.Session(200, 1000)
	for pid := uint32(101); pid <= 104; pid++ {
		f.k.Fork(100, pid, "lngtest-member")
		p := Port{Proto: "udp", Local: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(pid)), Holder: f.k.Proc(pid).Identity}
		its := f.sessions[s.ID()]
		its.looked.Ports = append(its.looked.Ports, p)
		if pid < 104 { // the graph does not know the last one yet
			f.registry.Update(func(tx registry.Tx) {
				tx.Apply([]tracer.Event{{Type: tracer.EventBirth, Time: 1, Process: p.Holder, Session: s.ID(), Evidence: tracer.EvidenceFork}})
			})
		}
	}
	f.registry.Update(func(tx registry.Tx) {
		tx.Apply([]tracer.Event{
			{Type: tracer.EventExit, Time: 2, Process: f.k.Proc(102).Identity, Session: s.ID()},
			{Type: tracer.EventBirth, Time: 2, Process: f.k.Proc(103).Identity, Session: other.ID(), Evidence: tracer.EvidenceRoot},
		})
	})
	f.holds("in order", s, 101, 104)
}

// TestCameFrom: what a session started may be in the sessions nested in it, and in those that took
// processes from any of these.
func TestCameFrom(t *testing.T) {
	f := newFixture(t)
	from := make(map[tracer.SessionID]tracer.SessionID)
	f.o.Origins = []Origin{
		func(registry.View, *registry.Session) tracer.SessionID { return 0 },
		func(_ registry.View, s *registry.Session) tracer.SessionID { return from[s.ID()] },
	}
	s, other, kept, again := f.registry.Session(100, 1000).ID(), f.registry.Session(200, 1000).ID(), f.registry.Session(300,
		1000).ID(), f.registry.Session(400, 1000).ID()
	f.k.Fork(300, 301, "lngtest-nested")
	nested := f.registry.Create(tracer.SessionSpec{Root: f.k.Proc(301).Identity, UID: 1000}).ID()
	from[kept], from[again] = s, nested
	f.registry.Update(func(tx registry.Tx) {
		all := f.cameFrom(tx.View, s)
		for id, want := range map[tracer.SessionID]bool{s: true, other: false, kept: true, nested: true, again: true} {
			if all[id] != want {
				t.Errorf("session %v: %v", id, all[id])
			}
		}
	})
}

// TestMemory: what all sessions hold is bounded in bytes, which users share; a receipt says what is missing, and
// all is free again when the sessions are gone.
func TestMemory(t *testing.T) {
	f := newFixture(t)
	many := make([]Lock, maxHeld+1)
	for i := range many {
		many[i] = Lock{Kind: "file", Path: fmt.Sprintf("/%0255d", i)}
	}
	var all []*registry.Session
	note := func(uid uint32) (kept int) {
		pid := uint32(100 + len(all))
		s := f.registry.Create(tracer.SessionSpec{Root: f.k.Add(pid, 1, "lngtest").Identity, UID: uid})
		all = append(all, s)
		f.registry.Update(func(tx registry.Tx) {
			for range 2 {
				f.Note(tx.View, s, Held{Locks: slices.Clone(many)}, 0)
			}
		})
		held := f.now(s)
		if len(held.Locks) > maxHeld || len(held.Unknown) != 1 {
			t.Errorf("%d locks, %v", len(held.Locks), held.Unknown)
		}
		return len(held.Locks)
	}
	sum := 0
	for range 100 {
		sum += note(1001)
	}
	if used := f.memory.Used(); used > maxMemory || sum < 20000 || sum*(256+64) > maxMemory {
		t.Errorf("%d locks in %d bytes", sum, used)
	}
	report := &api.Report{Started: 1}
	f.registry.Update(func(tx registry.Tx) { f.concluding(tx.View, all[99], report) })
	if len(report.HoldsUnknown) != 1 {
		t.Errorf("a receipt without room: %+v", report)
	}
	left := Freed{Busy: make([]Port, 1), Waits: make([]Wait, 1)}
	f.write(&aftermath{freed: left, still: many[:1], unknown: []string{"a", "b"}}, report)
	if len(report.HoldsUnknown) != 2 || len(report.PortsBusy)+len(report.PortsTimeWait)+len(report.LocksHeld) != 3 {
		t.Errorf("a receipt after a look that could not read all: %+v", report)
	}
	if n := note(1002); n != maxHeld {
		t.Errorf("another user has room for %d", n)
	}
	f.registry.Update(func(tx registry.Tx) {
		for _, s := range all {
			f.forget(tx.View, s)
		}
	})
	require.Equal(t, f.memory.Used(), 0)
}
