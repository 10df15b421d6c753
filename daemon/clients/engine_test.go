//go:build linux

package clients

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
	"golang.org/x/sys/unix"
)

// TestSockets: the kernel says where a process is connected, and on what it listens; not the ends that it has accepted.
func TestSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	self := uint32(os.Getpid())
	sockets := func() (of []Socket) {
		t.Helper()
		all, err := Sockets("/proc", self)
		require.NoError(t, err)
		for _, s := range all {
			if s.Path == path {
				of = append(of, s)
			}
		}
		return of
	}
	if got := sockets(); !slices.Equal(got, []Socket{{0, path}}) {
		t.Errorf("%+v", got)
	}
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer c.Close()
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	if got := sockets(); len(got) != 2 || !slices.Contains(got, Socket{0, path}) || !slices.Contains(got, Socket{self, path}) {
		t.Errorf("%+v", got)
	}
	if _, err := Sockets("/proc", 1<<30); err == nil {
		t.Error("a process that does not exist has sockets")
	}
}

// process has procfs show a process.
func process(t *testing.T, dir string, pid uint32, uid int, exe, pidNamespace string) {
	t.Helper()
	name := fmt.Sprint(pid)
	procfstest.Files(t, dir, map[string]string{
		name + "/status": fmt.Sprintf("Name:\tx\nUid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid),
		name + "/stat":   name + " (" + filepath.Base(exe) + ") S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 1 1 1 0 0 0 0 0 0 0 0 0 17 0\n",
		name + "/fd/x":   "",
		name + "/ns/x":   "",
	})
	for link, to := range map[string]string{"exe": exe, "ns/pid": pidNamespace, "ns/user": "user:[1]"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name, link)))
	}
}

// has has an engine hold the pipes of a container.
func has(t *testing.T, dir string, engine uint32, container string) {
	t.Helper()
	require.NoError(t, os.Symlink("/run/containerd/"+container+"/init-stdout", filepath.Join(dir, fmt.Sprint(engine), "fd/7")))
}

// TestEngines: an engine is root's, of this host, and named dockerd. It has a container whose pipes it holds.
func TestEngines(t *testing.T) {
	dir, id := t.TempDir(), strings.Repeat("ab", 32)
	connected := map[uint32][]Socket{
		10: {{100, "/run/docker.sock"}}, 11: {{101, "/run/docker.sock"}}, 12: {{102, "/x"}}, 13: {{103, "/x"}},
		14: {{1, "/run/dbus"}, {1, "/run/docker.sock"}}, 15: {{1, "/run/dbus"}}, 100: {{0, "/run/docker.sock"}},
	}
	e := engines{procfs.FS(dir), 1, func(pid uint32) ([]Socket, error) { return connected[pid], nil }}
	process := func(pid uint32, uid int, exe, pidNamespace string) {
		t.Helper()
		process(t, dir, pid, uid, exe, pidNamespace)
	}
	process(1, os.Geteuid(), "/sbin/init", "pid:[1]")
	process(100, os.Geteuid(), "/usr/bin/dockerd", "pid:[1]")
	process(101, 1001, "/home/x/dockerd", "pid:[1]")
	process(102, os.Geteuid(), "/usr/bin/nginx", "pid:[1]")
	process(103, os.Geteuid(), "/usr/bin/dockerd", "pid:[2]")
	for client, want := range map[uint32]uint32{10: 100, 11: 0, 12: 0, 13: 0, 14: 100, 15: 0, 16: 0} {
		if got := e.of(client, e.listening); got != want {
			t.Errorf("client %d: engine %d, want %d", client, got, want)
		}
	}
	has(t, dir, 100, id)
	if !e.serves(100, id) || e.serves(100, strings.Repeat("cd", 32)) || e.serves(101, id) || e.serves(5, id) {
		t.Error("the wrong engine has the container")
	}
}

// TestSocketsThatLinger: a process may close a socket while it is looked at here, and it says how long the last close is to wait
// for the peer.
func TestSocketsThatLinger(t *testing.T) {
	const wait = 5 // seconds
	little := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	}}
	l, err := little.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	to, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(l.Addr())
	}
	unread := make([]byte, 8<<20)
	var closing sync.WaitGroup
	for range 400 {
		closing.Go(func() {
			time.Sleep(rand.N(time.Second))
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil || unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte{127, 0, 0, 1}}) != nil {
				t.Error("not connected", err)
				return
			}
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 100_000})
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: wait})
			_, _ = unix.Write(fd, unread)
			unix.Close(fd)
		})
	}
	closed := make(chan struct{})
	go func() { defer close(closed); closing.Wait() }()
	for open := true; open; {
		began := time.Now()
		_, err := Sockets("/proc", uint32(os.Getpid()))
		require.NoError(t, err)
		if took := time.Since(began); took > wait*time.Second/2 {
			t.Fatalf("it took %v", took)
		}
		select {
		case <-closed:
			open = false
		default:
		}
	}
}
