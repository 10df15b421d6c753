//go:build linux

package attribution

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	process(t, dir, 1, os.Geteuid(), "/sbin/init", "pid:[1]")
	process(t, dir, 100, os.Geteuid(), "/usr/bin/dockerd", "pid:[1]")
	process(t, dir, 101, 1001, "/home/x/dockerd", "pid:[1]")
	process(t, dir, 102, os.Geteuid(), "/usr/bin/nginx", "pid:[1]")
	process(t, dir, 103, os.Geteuid(), "/usr/bin/dockerd", "pid:[2]")
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

// TestOthersSocketsAreNotCopied: only a unix socket is copied. The copy of another may be the last one when it is closed, and
// the process that closed the first has chosen how long that waits for the peer.
func TestOthersSocketsAreNotCopied(t *testing.T) {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	require.NoError(t, err)
	defer unix.Close(self)
	for family, want := range map[int]error{unix.AF_UNIX: nil, unix.AF_INET: errOther, unix.AF_INET6: errOther, unix.AF_NETLINK: errOther} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		name := fmt.Sprint(fd)
		copied, err := copyOf(self, name, procfs.FS("/proc").Path(uint32(os.Getpid()), "fd/"+name))
		if !errors.Is(err, want) {
			t.Errorf("family %d: %v", family, err)
		}
		if err == nil {
			unix.Close(copied)
		}
		unix.Close(fd)
	}
}
