//go:build linux

package holdings

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A pass reads the members that have used a CPU since they were read, and no others.
func TestPass(t *testing.T) {
	f := newFixture(t)
	k := f.k
	me, other := uint32(os.Getpid()), uint32(4000000) // no PID of this host
	k.Add(me, 1, "lngtest-root")
	s := f.registry.Create(tracer.SessionSpec{Root: k.Proc(me).Identity})
	k.Fork(me, other, "lngtest-other")
	open := func() (c net.PacketConn, port int) {
		c, err := net.ListenPacket("udp4", "127.0.0.1:0")
		require.NoError(t, err)
		return c, c.LocalAddr().(*net.UDPAddr).Port
	}
	holds := func(port int) bool {
		t.Helper()
		f.pass()
		return slices.ContainsFunc(f.now(s).Ports, func(p Port) bool { return p.Proto == "udp" && int(p.Local.Port()) == port })
	}
	runs := func(pid uint32) { k.Edit(pid, func(p *kerneltest.Proc) { p.CPUTime++ }) }
	file, err := os.Create(filepath.Join(t.TempDir(), "x.lock"))
	require.NoError(t, err)
	defer file.Close()
	locks := func() bool {
		return slices.ContainsFunc(f.now(s).Locks, func(l Lock) bool { return l.Path == file.Name() })
	}

	first, a := open()
	defer first.Close()
	if !holds(a) {
		t.Error("the first pass did not find a port")
	}
	second, b := open()
	if holds(b) {
		t.Error("a process was read that has not run")
	}
	runs(other)
	if holds(b) || !holds(a) || !locks() {
		t.Error("another process has run, and what this one holds changed")
	}
	if runs(me); !holds(b) || !holds(a) {
		t.Error("a process has run, and was not read")
	}
	second.Close()
	if runs(me); holds(b) || !holds(a) {
		t.Error("a port that was closed is still held")
	}
	k.Exit(other, 0)
	if !holds(a) {
		t.Error("another process has exited, and what this one holds changed")
	}
	k.Edit(me, func(p *kerneltest.Proc) { p.Dead = true })
	if holds(a) {
		t.Error("a dead process holds a port")
	}
}

// What a member of a nested session holds, the session around it holds, too. What could not be read, or kept,
// is read again, although its process has not run since.
func TestPassAgain(t *testing.T) {
	f := newFixture(t)
	k := f.k
	root, me := uint32(4000000), uint32(os.Getpid())
	k.Add(root, 1, "lngtest-root")
	var both []*registry.Session
	for _, pid := range []uint32{root, me} {
		if pid == me {
			k.Fork(root, me, "lngtest-inner")
		}
		both = append(both, f.registry.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity}))
	}
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer c.Close()
	for _, step := range []struct {
		refused error
		booked  int
		want    string
	}{{errors.New("lngtest: not now"), 0, "outer false, inner false"}, {nil, maxMemory, "outer false, inner false"}, {nil, 0, "outer true, inner true"}} {
		k.Fail("Identify", step.refused)
		f.registry.Update(func(registry.Tx) { f.memory.Book(0, step.booked-f.memory.Of(0)) })
		f.pass()
		var holds [2]bool
		for i, s := range both {
			holds[i] = slices.ContainsFunc(f.now(s).Ports, func(p Port) bool { return p.Local.String() == c.LocalAddr().String() })
		}
		if got := fmt.Sprintf("outer %v, inner %v", holds[0], holds[1]); got != step.want {
			t.Errorf("identified: %v, %d bytes booked: %s, want %s", step.refused, step.booked, got, step.want)
		}
	}
}

// TestLookTooLong: a look at a session that takes more than a second is broken off, and says so.
func TestLookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, me := newFixture(t), uint32(os.Getpid())
		f.reader = NewReader("/proc", func(pid uint32) (tracer.Identity, error) {
			time.Sleep(limit + 1)
			return f.k.Proc(pid).Identity, nil
		})
		f.k.Add(me, 1, "lngtest-root")
		s := f.registry.Create(tracer.SessionSpec{Root: f.k.Proc(me).Identity})
		f.pass()
		if now := f.now(s); !strings.Contains(strings.Join(now.Unknown, " "), errTime.Error()) {
			t.Errorf("%+v", now)
		}
	})
}

// Where nothing has run, a pass does no work for each session.
func TestQuietPass(t *testing.T) {
	f := newFixture(t)
	allocated := func(sessions uint32) float64 {
		for pid := 4000000 + sessions; f.k.Proc(pid) == nil && pid > 4000000; pid-- {
			f.registry.Session(pid, 1000)
		}
		f.pass()
		return testing.AllocsPerRun(10, func() { f.Holdings.pass(t.Context()) })
	}
	if one, many := allocated(1), allocated(30); many > one+15 {
		t.Errorf("a pass allocates %v times with one session, %v times with 30", one, many)
	}
}

// Each look of the registry at sessions brings a pass.
func TestRun(t *testing.T) {
	f := newFixture(t)
	var run sync.WaitGroup
	t.Cleanup(run.Wait)
	run.Go(func() { f.Holdings.Run(t.Context()) })
	read := make(chan struct{}, 100)
	f.reader = NewReader("/proc", func(pid uint32) (tracer.Identity, error) {
		read <- struct{}{}
		return f.k.Proc(pid).Identity, nil
	})
	f.registry.Session(uint32(os.Getpid()), 1000)
	<-read // of the root's standard output
	for range 3 {
		f.sample()
		require.Soon(t, read, "no pass after a look")
		f.k.Edit(uint32(os.Getpid()), func(p *kerneltest.Proc) { p.CPUTime++ })
	}
}

// A session is not idle while a client is connected to its port, and since then only for as long as
// no look has found one. A look comes when members have run, but not at every pass.
func TestClientsOfPorts(t *testing.T) {
	f := newFixture(t)
	k, me := f.k, uint32(os.Getpid())
	k.Add(me, 1, "lngtest-root")
	s := f.registry.Create(tracer.SessionSpec{Root: k.Proc(me).Identity})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	idle := func(what string, want time.Duration) {
		t.Helper()
		f.pass()
		var got time.Duration
		f.registry.Update(func(tx registry.Tx) { got = tx.Record(s).Used.Idle })
		if got.Round(time.Second) != want {
			t.Errorf("%s: idle for %v, want %v", what, got, want)
		}
	}
	connect := func() (end func()) {
		c, err := net.Dial("tcp4", l.Addr().String())
		require.NoError(t, err)
		served, err := l.Accept()
		require.NoError(t, err)
		return func() {
			require.NoError(t, c.(*net.TCPConn).SetLinger(0), c.Close(), served.Close()) // no TIME_WAIT
		}
	}
	runs := func() { k.Edit(me, func(p *kerneltest.Proc) { p.CPUTime++ }) }

	idle("new", 0)
	k.Advance(time.Hour)
	idle("without a client", time.Hour)
	end := connect()
	idle("nothing has run", time.Hour)
	runs()
	idle("a client", 0)
	k.Advance(time.Hour)
	idle("still connected", 0)
	end()
	k.Advance(useEvery - time.Second)
	idle("not looked at again yet", 0)
	k.Advance(time.Second)
	idle("gone", useEvery)
	k.Advance(useEvery - time.Second)
	end = connect()
	runs()
	idle("too early for a look", 2*useEvery-time.Second)
	f.LookForClients(t.Context(), s.ID())
	idle("a look was asked for", 0)
	end()
	l.Close()
	runs()
	k.Advance(time.Hour)
	idle("without a port", time.Hour)
}
