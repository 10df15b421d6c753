//go:build linux

package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "passed")
	t.Cleanup(func() { f.Close() })
	return f
}

func TestDoor(t *testing.T) {
	dir := t.TempDir()
	i, err := instanceOf(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) *unix.SockaddrUnix {
		os.Remove(filepath.Join(dir, name))
		return &unix.SockaddrUnix{Name: filepath.Join(dir, name)}
	}
	file, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		sockets func() []*os.File
		want    string
	}{
		{"right", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("s"), true)} }, ""},
		{"another path", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("other"), true)} }, "not " + i.socket},
		{"not listening", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("s"), false)} }, "it does not listen; set Accept=no"},
		{"datagrams", func() []*os.File { return []*os.File{passed(t, unix.AF_UNIX, unix.SOCK_DGRAM, at("s"), false)} }, "no stream socket"},
		{"internet", func() []*os.File {
			return []*os.File{passed(t, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, true)}
		}, "no unix socket"},
		{"a file", func() []*os.File { return []*os.File{file} }, "no socket: socket operation on non-socket"},
		{"two", func() []*os.File {
			return []*os.File{
				passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("s"), true),
				passed(t, unix.AF_UNIX, unix.SOCK_STREAM, at("more"), true),
			}
		}, "it passed 2, want one, ListenStream=" + i.socket},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := manager{sockets: tt.sockets()}
			d, err := m.door(i)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || d != nil {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d.Close()
			d.remove()
			if _, err := os.Stat(i.socket); err != nil {
				t.Errorf("the manager's socket is gone: %v", err)
			}
		})
	}
	if d, err := (&manager{}).door(i); d != nil || err != nil {
		t.Errorf("%v %v of nothing", d, err)
	}
}

// A socket that somebody made in the place of ours stays.
func TestRemoveOnlyOurs(t *testing.T) {
	i, err := instanceOf(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := listen(i, Options{SocketMode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if info, err := os.Stat(i.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := os.Rename(i.socket, i.socket+".old"); err != nil {
		t.Fatal(err)
	}
	theirs, err := net.Listen("unix", i.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	d.remove()
	if _, err := os.Stat(i.socket); err != nil {
		t.Error(err)
	}
	if err := os.Rename(i.socket+".old", i.socket); err != nil {
		t.Fatal(err)
	}
	d.remove()
	if _, err := os.Stat(i.socket); !os.IsNotExist(err) {
		t.Error(err)
	}
}
