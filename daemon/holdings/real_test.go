//go:build linux

package holdings

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

func reader() *Reader { return NewReader("/proc", identify) }

func of(t *testing.T, hs ...*holder) Held {
	t.Helper()
	var ids []tracer.Identity
	for _, h := range hs {
		ids = append(ids, h.id)
	}
	held := reader().Of(t.Context(), ids)
	if len(readable(held.Unknown)) != 0 {
		t.Errorf("unknown: %v", held.Unknown)
	}
	return held
}

func TestPorts(t *testing.T) {
	for _, proto := range []string{"tcp", "udp", "tcp6"} {
		t.Run(proto, func(t *testing.T) {
			address := map[string]string{"tcp": "127.0.0.1:0", "udp": "127.0.0.1:0", "tcp6": "[::1]:0"}[proto]
			if proto == "tcp6" {
				l, err := net.Listen("tcp6", address)
				if err != nil {
					t.Skip("no IPv6 here")
				}
				l.Close()
			}
			h := start(t, proto, address)
			idle := start(t, "nothing")
			held := of(t, h, idle)
			if len(held.Ports) != 1 || len(held.Locks) != 0 {
				t.Fatalf("%+v", held)
			}
			p := held.Ports[0]
			if p.Proto != proto || p.Local.String() != h.printed || p.Holder != h.id || p.Netns == 0 || p.String() != proto+" "+h.printed {
				t.Errorf("%+v, it listens on %s", p, h.printed)
			}
			found, _ := reader().Listeners(t.Context(), proto[:3], h.port())
			if !slices.Equal(found.Ports, held.Ports) {
				t.Errorf("the reverse: %+v", found)
			}
			f := reader().Freed(t.Context(), held.Ports)
			if len(f.Busy) != 1 || f.Busy[0].Holder != h.id || len(f.Ports) != 0 {
				t.Errorf("while it listens: %+v", f)
			}
			h.stop()
			f = reader().Freed(t.Context(), held.Ports)
			if len(f.Busy) != 0 || len(f.Ports) != 1 || f.Ports[0].Holder.PID != 0 || len(readable(f.Unknown)) != 0 {
				t.Errorf("afterwards: %+v", f)
			}
			if held := of(t, h); len(held.Ports) != 0 {
				t.Errorf("a dead process holds %+v", held)
			}
		})
	}
}

// TestClient: a client of a port does not hold it; a connection that the server closed
// is reported as TIME_WAIT.
func TestClient(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	c := start(t, "client", l.Addr().String())
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	if held := of(t, c); len(held.Ports) != 0 {
		t.Errorf("the client holds %+v", held)
	}
	found, _ := reader().Listeners(t.Context(), "tcp", port)
	if len(found.Ports) != 1 || found.Ports[0].Holder.PID != uint32(os.Getpid()) {
		t.Fatalf("it listens: %+v", found)
	}
	served, err := l.Accept()
	require.NoError(t, err)
	l.Close()
	served.Close() // first: TIME_WAIT is ours
	c.stop()
	for waits := 0; waits != 1; { // until the client's end arrives; the test's own deadline bounds it
		var again Held
		if again, waits = reader().Listeners(t.Context(), "tcp", port); len(again.Ports) != 0 {
			t.Fatalf("%+v, %d", again, waits)
		}
	}
	f := reader().Freed(t.Context(), found.Ports)
	if len(f.Ports) != 1 || len(f.Busy) != 0 || len(f.Waits) != 1 || f.Waits[0].Connections != 1 {
		t.Errorf("%+v", f)
	}
}

// TestShared: a socket that another process has open too stays busy, and that process
// is named.
func TestShared(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	me, err := identify(uint32(os.Getpid()))
	require.NoError(t, err)
	held := reader().Of(t.Context(), []tracer.Identity{me})
	i := slices.IndexFunc(held.Ports, func(p Port) bool { return p.Local.String() == l.Addr().String() })
	if i < 0 {
		t.Fatalf("%+v", held)
	}
	before := held.Ports[i]
	before.Holder = tracer.Identity{PID: 1, Start: 1} // a member that is gone by now
	f := reader().Freed(t.Context(), []Port{before})
	if len(f.Busy) != 1 || f.Busy[0].Holder != me {
		t.Errorf("%+v", f)
	}
}

func TestLocks(t *testing.T) {
	for _, kind := range []string{"flock", "posix", "ofd", "lease"} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.lock")
			h := start(t, kind, path)
			held := of(t, h)
			if len(held.Locks) != 1 {
				t.Fatalf("%+v", held)
			}
			if l := held.Locks[0]; l.Kind != kind || l.Mode != "write" || l.Path != path || l.Holder != h.id {
				t.Errorf("%+v", l)
			}
			files, locks := reader().Holders(t.Context(), wanted(t, path))
			if len(files) != 1 || files[0].Holder != h.id || files[0].Access != "read_write" || len(locks.Locks) != 1 || locks.Locks[0].Kind != kind {
				t.Errorf("the reverse: %+v %+v", files, locks)
			}
			if released, still, _ := reader().Released(t.Context(), held.Locks); len(released) != 0 || len(still) != 1 || still[0].Holder != h.id {
				t.Errorf("while it is held: %+v %+v", released, still)
			}
			h.stop()
			if released, still, unknown := reader().Released(t.Context(), held.Locks); len(released) != 1 || len(still) != 0 || len(unknown) != 0 {
				t.Errorf("afterwards: %+v %+v %v", released, still, unknown)
			}
			if files, locks := reader().Holders(t.Context(), wanted(t, path)); len(files)+len(locks.Locks) != 0 {
				t.Errorf("afterwards: %+v %+v", files, locks)
			}
		})
	}
}

func wanted(t *testing.T, path string) Wanted {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return Wanted{Path: path, Device: st.Dev, Inode: st.Ino}
}

func TestWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	h := start(t, "flock", path)
	w := start(t, "wait", path)
	for { // until it waits; the test's own deadline bounds it
		held := of(t, h)
		if len(held.Locks) != 1 {
			t.Fatalf("%+v", held)
		}
		if slices.Equal(held.Locks[0].Waiting, []int{w.cmd.Process.Pid}) {
			break
		}
	}
	if held := of(t, w); len(held.Locks) != 0 {
		t.Errorf("who waits holds %+v", held)
	}
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.lock")
	h := start(t, "open", path)
	held := of(t, h)
	if len(held.Locks) != 1 || held.Locks[0].Kind != "file" || held.Locks[0].Path != path {
		t.Errorf("%+v", held)
	}
	os.Remove(path)
	if held := of(t, h); len(held.Locks) != 0 {
		t.Errorf("removed: %+v", held)
	}
}

// TestThread: one thread has a descriptor table of its own.
func TestThread(t *testing.T) {
	require.Root(t)
	path := filepath.Join(t.TempDir(), "f")
	h := start(t, "thread", path)
	if held := of(t, h); len(held.Locks) != 1 || held.Locks[0].Path != path {
		t.Errorf("%+v", held)
	}
	r := reader()
	r.sameFiles = func(int, int) (bool, error) { return false, unix.EPERM } // no kcmp: every table is read
	if held := r.Of(t.Context(), []tracer.Identity{h.id}); len(held.Locks) != 1 {
		t.Errorf("without kcmp: %+v", held)
	}
}

// TestNetns: the same port number in another namespace is another port.
func TestNetns(t *testing.T) {
	require.Root(t)
	h := start(t, "netns", "tcp", "0.0.0.0:39117")
	held := of(t, h)
	if len(held.Ports) != 1 || held.Ports[0].Local.Port() != 39117 {
		t.Fatalf("%+v", held)
	}
	reader().selfAndInit(func(p *process) {
		if ns, err := p.namespace("net"); !denied(err) && (err != nil || ns == held.Ports[0].Netns) {
			t.Errorf("namespace %d, ours %d %v", held.Ports[0].Netns, ns, err)
		}
	})
	found, _ := reader().Listeners(t.Context(), "tcp", 39117)
	if !slices.Contains(found.Ports, held.Ports[0]) {
		t.Errorf("the reverse: %+v", found)
	}
	h.stop()
	// A process that may not be read could be in that namespace.
	if f := reader().Freed(t.Context(), held.Ports); len(f.Ports)+len(f.Unknown) != 1 || len(f.Busy) != 0 || len(readable(f.Unknown)) != 0 {
		t.Errorf("afterwards: %+v", f)
	}
}

func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b")
	h := start(t, "unix", path)
	held := of(t, h)
	if len(held.Ports) != 1 || held.Ports[0].Proto != "unix" || held.Ports[0].Addr() != path || held.Ports[0].Holder != h.id {
		t.Fatalf("%+v", held)
	}
	if _, found := reader().Holders(t.Context(), Wanted{Path: path}); !slices.Equal(found.Ports, held.Ports) {
		t.Errorf("the reverse: %+v", found)
	}
}

// TestOtherName: a file is found by its identity, not by its name.
func TestOtherName(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "f"), filepath.Join(dir, "g")
	h := start(t, "open", path)
	require.NoError(t, os.Link(path, other))
	files, held := reader().Holders(t.Context(), wanted(t, other))
	if len(files) != 1 || files[0].Holder != h.id || files[0].Path != path || len(readable(held.Unknown)) != 0 {
		t.Errorf("%+v %+v", files, held)
	}
	if files, _ := reader().Holders(t.Context(), Wanted{Path: path}); len(files) != 1 {
		t.Errorf("by its name only: %+v", files)
	}
	// Another file of that name is not the held one.
	os.Remove(path)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	if files, _ := reader().Holders(t.Context(), wanted(t, path)); len(files) != 0 {
		t.Errorf("another file: %+v", files)
	}
}

func TestWriters(t *testing.T) {
	h := start(t, "nothing")
	output, err := reader().Output(h.id)
	if err != nil || output == "" {
		t.Fatalf("%q %v", output, err)
	}
	other := start(t, "nothing") // has a pipe of its own
	among := []tracer.Identity{h.id, other.id, h.id}
	if writers, err := reader().Writers(t.Context(), output, among); err != nil || !slices.Equal(writers, []tracer.Identity{h.id}) {
		t.Errorf("%v %v: this test only reads", writers, err)
	}
	over, cancel := context.WithCancel(t.Context()) // nothing else is read
	cancel()
	if writers, err := reader().Writers(over, output, nil); err != nil || len(writers) != 0 {
		t.Errorf("among none: %v %v", writers, err)
	}
	h.stop()
	if writers, err := reader().Writers(t.Context(), output, among); err != nil || len(writers) != 0 {
		t.Errorf("afterwards: %v %v", writers, err)
	}
	if _, err := reader().Output(h.id); !gone(err) {
		t.Errorf("of a dead process: %v", err)
	}
}

// TestIdentity: what the next process with the PID holds is not the first one's.
func TestIdentity(t *testing.T) {
	h := start(t, "tcp", "127.0.0.1:0")
	h.id.Start--
	if held := of(t, h); len(held.Ports) != 0 {
		t.Errorf("%+v", held)
	}
	h.id.Start++
	r := reader()
	r.Identify = func(uint32) (tracer.Identity, error) { return tracer.Identity{}, errors.New("broken") }
	if held := r.Of(t.Context(), []tracer.Identity{h.id}); len(held.Unknown) == 0 || len(held.Ports) != 0 {
		t.Errorf("a query that fails: %+v", held)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if held := reader().Of(ctx, []tracer.Identity{h.id}); len(held.Unknown) == 0 || len(held.Ports) != 0 {
		t.Errorf("no time: %+v", held)
	}
	if f := reader().Freed(ctx, []Port{{Proto: "tcp", Netns: 1, inode: 1}}); len(f.Unknown) == 0 || len(f.Ports) != 0 {
		t.Errorf("no time: %+v", f)
	}
}
