//go:build linux

package access

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

const connectTo = "LNGTEST_CONNECT"

// A process that a test of this package starts connects, and stays until its input is closed.
func init() {
	path := os.Getenv(connectTo)
	if path == "" {
		return
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	c.Close()
	os.Exit(0)
}

// caller starts a process that connects, and returns what the socket says of it. quit ends the process.
func caller(t *testing.T, attr *syscall.SysProcAttr) (p Peer, quit func()) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lngtest")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "caller"), program, 0o755))
	}
	require.NoError(t, err)
	path := filepath.Join(dir, "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	require.NoError(t, errors.Join(os.Chmod(path, 0o777), ln.SetDeadline(time.Now().Add(time.Minute))))
	cmd := exec.Command(filepath.Join(dir, "caller"))
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), connectTo+"="+path), attr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	quit = sync.OnceFunc(func() {
		in.Close()
		_ = cmd.Wait()
	})
	t.Cleanup(quit)
	c, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	p, err = PeerOf(c)
	require.NoError(t, err)
	t.Cleanup(p.close)
	if p.PID != uint32(cmd.Process.Pid) {
		t.Fatalf("pid %d, want %d", p.PID, cmd.Process.Pid)
	}
	return p, quit
}

// The socket tells user, groups and PID namespace of a caller.
func TestPeer(t *testing.T) {
	require.Root(t)
	groups := make([]uint32, 100) // more than one look has room for
	for i := range groups {
		groups[i] = 2000 + uint32(i)
	}
	p, _ := caller(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1001, Groups: groups}})
	slices.Sort(p.Groups)
	if p.UID != 1000 || p.GID != 1001 || !slices.Equal(p.Groups, groups) || p.Away || p.Hidden != nil || p.Gone {
		t.Errorf("a user: %+v", p)
	}
	p, _ = caller(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	if p.UID != 0 || !p.Away || p.Hidden != nil {
		t.Errorf("in another PID namespace: %+v", p)
	}
}

func identified(p Peer) Caller {
	k := kerneltest.New()
	k.Add(p.PID, 1, "lngtest")
	a := New(Options{
		Kernel: k, Proc: "/proc", Group: 2050, Clock: func() time.Duration { return 0 },
		Audit: func(AuditRecord) {}, Log: zerolog.Nop(),
	})
	return a.Identify(p).caller
}

// A caller is identified while the kernel answers for no process.
func TestCallerAmongStuckProcesses(t *testing.T) {
	require.Root(t)
	release := make(chan struct{})
	defer close(release)
	var leaving sync.WaitGroup
	for i := range 512 { // all that may wait
		leaving.Go(func() {
			_, _ = procfs.Bounded(procfs.UserKey("lngtest-"+strconv.Itoa(i), 0), func() (int, error) {
				<-release
				return 0, nil
			})
		})
	}
	leaving.Wait()
	p, quit := caller(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1001, Groups: []uint32{2050}}})
	if _, err := procfs.FS("/proc").Status(p.PID); !errors.Is(err, procfs.ErrStuck) {
		t.Errorf("it can be read: %v", err)
	}
	c := identified(p)
	if c.Foreign || c.Unplaced != nil || c.Lost || !c.Group || c.Comm != "caller" {
		t.Errorf("%+v", c)
	}
	quit()
	if c := identified(p); !c.Lost || c.Comm != "" {
		t.Errorf("it has exited: %+v", c)
	}
}

// A caller that was reaped before the daemon asked gets no rights: its PID may be another process's.
func TestReapedCaller(t *testing.T) {
	if c := identified(Peer{PID: uint32(os.Getpid()), PIDFD: -1, Gone: true}); !c.Lost || c.Group || c.Comm != "" {
		t.Errorf("%+v", c)
	}
}
