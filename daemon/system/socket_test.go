//go:build linux

package system

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// passed is a socket as a service manager passes it.
func passed(t *testing.T, domain, kind int, sa unix.Sockaddr, listens bool) *os.File {
	t.Helper()
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err == nil && listens {
		err = unix.Listen(fd, 8)
	}
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "passed")
	t.Cleanup(func() { f.Close() })
	return f
}

func TestPassedSocket(t *testing.T) {
	dir := t.TempDir()
	i := at(t, filepath.Join(dir, "s"))
	at := func(name string) *unix.SockaddrUnix {
		os.Remove(filepath.Join(dir, name))
		return &unix.SockaddrUnix{Name: filepath.Join(dir, name)}
	}
	file, err := os.Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	for _, tt := range []struct {
		name    string
		sockets func() []*os.File
		want    string
	}{
		{"right", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("s"), true)} }, ""},
		{"another path", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("other"), true)} }, "not " + i.Socket},
		{"not listening", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("s"), false)} }, "it does not listen; set Accept=no"},
		{"datagrams", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_DGRAM, at("s"), false)} }, "not a stream socket"},
		{"internet", func() []*os.File {
			return []*os.File{passed(t, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, true)}
		}, "not a unix socket"},
		{"a file", func() []*os.File { return []*os.File{file} }, "not a socket: socket operation on non-socket"},
		{"two", func() []*os.File {
			return []*os.File{
				passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("s"), true),
				passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("more"), true),
			}
		}, "it passed 2 sockets; set one ListenStream=" + i.Socket},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Manager{Sockets: tt.sockets()}
			d, err := m.Listener(i)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || d != nil {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			require.NoError(t, err)
			d.Close()
			d.Remove()
			if _, err := os.Stat(i.Socket); err != nil {
				t.Errorf("the manager's socket is gone: %v", err)
			}
		})
	}
	if d, err := (&Manager{}).Listener(i); d != nil || err != nil {
		t.Errorf("%v %v of nothing", d, err)
	}
}

// A socket that replaced ours stays.
func TestRemoveOnlyOurs(t *testing.T) {
	i := at(t, filepath.Join(t.TempDir(), "s"))
	d, err := i.Listen(0o600, "")
	require.NoError(t, err)
	defer d.Close()
	if info, err := os.Stat(i.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	require.NoError(t, os.Rename(i.Socket, i.Socket+".old"))
	theirs, err := net.Listen("unix", i.Socket)
	require.NoError(t, err)
	defer theirs.Close()
	d.Remove()
	if _, err := os.Stat(i.Socket); err != nil {
		t.Error(err)
	}
	require.NoError(t, os.Rename(i.Socket+".old", i.Socket))
	d.Remove()
	if _, err := os.Stat(i.Socket); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestSocketReplaced: what the owner of the directory puts in the socket's place is not changed.
func TestSocketReplaced(t *testing.T) {
	dir := t.TempDir()
	secret, socket := filepath.Join(dir, "secret"), filepath.Join(dir, "s")
	require.NoError(t, os.WriteFile(secret, nil, 0o600))
	other := filepath.Join(dir, "other")
	theirs, err := net.Listen("unix", other)
	require.NoError(t, err)
	defer theirs.Close()
	require.NoError(t, os.Chmod(other, 0o600))
	for _, c := range []struct {
		name string
		put  func() error
	}{
		{"link", func() error { return os.Symlink(secret, socket) }},
		{"hard link", func() error { return os.Link(secret, socket) }},
		{"hard link to a socket", func() error { return os.Link(other, socket) }},
		{"socket of another user, moved", func() error { return errors.Join(os.Chown(other, 65534, -1), os.Rename(other, socket)) }}, // the last one
	} {
		if strings.Contains(c.name, "user") && os.Geteuid() != 0 {
			continue
		}
		os.Remove(socket)
		require.NoError(t, c.put())
		if _, err := permit(socket, 0o666, ""); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	for _, path := range []string{other, socket} {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("the mode of another socket is now %v", info.Mode())
		}
	}
	if info, err := os.Stat(secret); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode of another file is now %v: %v", info.Mode(), err)
	}
	i := at(t, filepath.Join(dir, "made"))
	group := ""
	if os.Geteuid() == 0 {
		group = "root"
	}
	ln, err := i.Listen(0o640, group)
	require.NoError(t, err)
	defer ln.Close()
	if info, err := os.Lstat(i.Socket); err != nil || info.Mode() != os.ModeSocket|0o640 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
	if ln.Remove(); !errors.Is(unix.Access(i.Socket, 0), unix.ENOENT) {
		t.Error("it is left behind")
	}
}
