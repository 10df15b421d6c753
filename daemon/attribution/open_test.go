//go:build linux

package attribution

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
	"golang.org/x/sys/unix"
)

// user is the user whose processes choose files.
const user = 1000

// plants are what a process may have as its standard input.
var plants = map[string]func(path string) error{
	"job of the user": func(path string) error { return write(path, user) },
	"file of root":    func(path string) error { return write(path, 0) },
	"file of another": func(path string) error { return write(path, user+1) },
	"FIFO": func(path string) error {
		return errors.Join(unix.Mkfifo(path, 0o600), os.Chown(path, user, user))
	},
	"device": func(path string) error {
		return errors.Join(unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), os.Chown(path, user, user))
	},
	"socket": func(path string) error {
		return errors.Join(unix.Mknod(path, unix.S_IFSOCK|0o600, 0), os.Chown(path, user, user))
	},
	"directory": func(path string) error { return os.Mkdir(path, 0o700) },
}

func write(path string, uid int) error {
	const text = "#!/bin/sh\nLINEAGE_TOKEN=SECRET; export LINEAGE_TOKEN\n"
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, uid, uid))
}

func opens(t *testing.T, path string, look func()) bool {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN)
	require.NoError(t, err)
	look()
	n, err := unix.Read(fd, make([]byte, 4096))
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	return n > 0
}

// seen is a kernel in which every process has its identity.
type seen struct{ *kerneltest.Kernel }

func (seen) Identify(pid uint32) (tracer.Identity, error) {
	return tracer.Identity{PID: pid, Start: 1}, nil
}

// below makes a process of the user and its parent, a file called atd.
func below(t *testing.T, owner int, namespace string) (*Attribution, *tracer.Process) {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	for pid, exe := range map[uint32]string{3: "/bin/lineage", 30: "/usr/sbin/atd", 300: "/bin/sh"} {
		process(t, dir, pid, owner, exe, "pid:[1]")
	}
	procfstest.Files(t, dir, map[string]string{
		"300/stat": "300 (sh) S 30 1 1 0" + strings.Repeat(" 0", 20), "300/cgroup": "0::/lngtest\n", "300/environ": "A=1\x00",
	})
	if namespace != "" {
		link := filepath.Join(dir, "30/ns", namespace)
		require.NoError(t, os.Remove(link), os.Symlink(namespace+":[2]", link))
	}
	p := &tracer.Process{Identity: tracer.Identity{PID: 300, Start: 1}, Looks: lineage.Looks{UID: user}}
	p.Parent = tracer.Identity{PID: 30}
	return &Attribution{o: Options{Options: rules.Options{Ground: registry.Ground{Kernel: seen{kerneltest.New()}, Proc: procfs.FS(dir)}},
		Self: tracer.Identity{PID: 3}}}, p
}

// Of what a process has as its standard input, only a job of its own user is opened, and only below root's atd on the host.
func TestJobOpens(t *testing.T) {
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			a, p := below(t, 0, "")
			path := a.o.Proc.Path(p.PID, "fd/0")
			require.NoError(t, plant(path))
			theirs := name == "job of the user"
			var x candidate
			if opens(t, path, func() { x, _ = a.read(p) }) != theirs {
				t.Errorf("opened: %v", !theirs)
			}
			if (x.marks.Token == lookup.SumOf("SECRET")) != theirs {
				t.Error("token")
			}
		})
	}
	for name, c := range map[string]struct {
		owner     int
		namespace string
	}{"a user's": {owner: user}, "in a user namespace": {namespace: "user"}, "in a PID namespace": {namespace: "pid"}} {
		t.Run("atd is "+name, func(t *testing.T) {
			a, p := below(t, c.owner, c.namespace)
			path := a.o.Proc.Path(p.PID, "fd/0")
			require.NoError(t, write(path, user))
			if opens(t, path, func() { a.read(p) }) {
				t.Error("opened")
			}
		})
	}
}
