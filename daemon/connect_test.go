//go:build linux

package daemon_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// lngtestDaemon starts this test binary as the daemon.
func lngtestDaemon(env ...string) func(string) *exec.Cmd {
	return func(socket string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "lngtest-daemon", socket)
		cmd.Env = append(os.Environ(), env...)
		return cmd
	}
}

func starts(t *testing.T, dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "starts"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// left waits until the daemon has exited and unloaded.
func left(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := system.Poll(ctx, func() (bool, error) {
		_, unloaded := os.Stat(filepath.Join(dir, "unloaded"))
		_, socket := os.Stat(filepath.Join(dir, "s"))
		return unloaded == nil && os.IsNotExist(socket), nil
	})
	if err != nil {
		t.Errorf("the daemon stays: %v", err)
	}
}

// TestConnectMany: of 50 commands at once, one starts the daemon.
func TestConnectMany(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	// What a killed daemon left behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	var wg sync.WaitGroup
	clients := make([]api.Client, 50)
	for i := range clients {
		wg.Go(func() {
			c, err := system.Connect(t.Context(), system.ConnectOptions{Socket: socket, Command: lngtestDaemon()})
			if err != nil {
				t.Error(err)
				return
			}
			clients[i] = c
		})
	}
	wg.Wait()
	pids := map[int]bool{}
	for _, c := range clients {
		if c == nil {
			continue
		}
		v, err := c.Version(t.Context())
		require.NoError(t, err)
		if !v.Ephemeral {
			t.Errorf("%+v", v)
		}
		pids[v.PID] = true
		c.Close()
	}
	if n := starts(t, dir); n != 1 || len(pids) != 1 {
		t.Errorf("%d daemons were started, %v answered", n, pids)
	}
	if info, err := os.Stat(filepath.Join(dir, "daemon.log")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("log: %v %v", info, err)
	}
	left(t, dir)
}

func TestConnectErrors(t *testing.T) {
	require.Root(t)
	t.Run("the daemon says why", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		_, err := system.Connect(t.Context(), system.ConnectOptions{Socket: socket, Command: lngtestDaemon("LNGTEST_REFUSE=1")})
		if err == nil || !strings.Contains(err.Error(), "mount -t bpf -o mode=0700 bpf /sys/fs/bpf") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it dies", func(t *testing.T) {
		dir := t.TempDir()
		_, err := system.Connect(t.Context(), system.ConnectOptions{Socket: filepath.Join(dir, "s"), Command: lngtestDaemon("LNGTEST_DIE=1")})
		if !errors.Is(err, system.ErrDied) || !strings.Contains(err.Error(), filepath.Join(dir, "daemon.log")) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such directory", func(t *testing.T) {
		_, err := system.Connect(t.Context(), system.ConnectOptions{Socket: filepath.Join(t.TempDir(), "a/b/s"), Command: lngtestDaemon()})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the socket is a file", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		require.NoError(t, os.WriteFile(socket, []byte("precious"), 0o600))
		if _, err := system.Connect(t.Context(), system.ConnectOptions{Socket: socket, Command: lngtestDaemon()}); err == nil {
			t.Error("no error")
		}
		if b, _ := os.ReadFile(socket); string(b) != "precious" {
			t.Errorf("the file is %q now", b)
		}
	})
}

// TestEphemeralStays: it stays while it has a session, and exits after the last.
func TestEphemeralStays(t *testing.T) {
	w := daemontest.New(t)
	w.Halt()
	w.Options.Ephemeral = 50 * time.Millisecond
	w.Start()
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	w.K.Advance(time.Hour)
	if d := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+s.ID); d.State != "active" {
		t.Errorf("%+v", d)
	}
	w.K.Exit(100, 0)
	w.Receipt(s.ID)
	unloads(w)
}

// unloads waits until an ephemeral daemon has exited: only the test advances its clock.
func unloads(w *daemontest.Daemon) {
	w.Helper()
	w.Until(func() bool {
		w.K.Advance(w.Options.Ephemeral)
		_, err := os.Stat(filepath.Join(w.Dir, "unloaded"))
		return err == nil
	})
	w.Halt()
}

// TestEphemeralWithoutDirectory: an ephemeral daemon takes the kernel side down even if
// the directory of its socket was removed.
func TestEphemeralWithoutDirectory(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) {
		w.Socket = filepath.Join(w.Dir, "run", "s")
		w.Options.Ephemeral = 50 * time.Millisecond
	})
	require.NoError(t, os.RemoveAll(filepath.Dir(w.Socket)))
	unloads(w)
	if _, err := os.Stat(filepath.Dir(w.Socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left behind: %v", err)
	}
}

// serveFake runs the daemon as lineage daemon does.
func serveFake(t *testing.T, k *kerneltest.Kernel, o daemon.Options) (stop func() error) {
	t.Helper()
	h := daemon.ThisHost()
	h.Open = func(tracer.Options) (daemon.Kernel, error) { k.Reopen(); return k, nil }
	h.Unload = func(string) error { return os.WriteFile(filepath.Join(filepath.Dir(o.Socket), "unloaded"), nil, 0o600) }
	c, stop := daemontest.Serve(t, h, o)
	c.Close()
	return stop
}

// oneMore tries to start a daemon beside the one that has the socket.
func oneMore(t *testing.T, socket string) {
	t.Helper()
	h := daemon.ThisHost()
	h.Open = func(tracer.Options) (daemon.Kernel, error) { return nil, errors.New("not reached") }
	err := h.Serve(t.Context(), daemon.Options{Socket: socket}, nil, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "another program listens on it") { // this process holds the PID file
		t.Errorf("one more daemon: %v", err)
	}
}

func fakeKernel() *kerneltest.Kernel {
	k := kerneltest.New()
	k.Add(uint32(os.Getppid()), 1, "lngtest-parent")
	k.Add(uint32(os.Getpid()), uint32(os.Getppid()), "lngtest-daemon")
	return k
}

// TestTakeOver: a new daemon takes the sessions of an ephemeral one that was stopped; a second one is
// refused. TestPIDFile of package system has who stops it.
func TestTakeOver(t *testing.T) {
	require.Root(t)
	socket := filepath.Join(t.TempDir(), "s")
	k := fakeKernel()
	k.Add(100, 1, "lngtest-root")
	_, err := k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity, Name: "a"})
	require.NoError(t, err)
	first := serveFake(t, k, daemon.Options{Socket: socket, Ephemeral: time.Minute, Version: "first"})
	require.NoError(t, first())
	serveFake(t, k, daemon.Options{Socket: socket, Version: "second"})
	oneMore(t, socket)
	c, err := api.Dial(t.Context(), socket)
	require.NoError(t, err)
	defer c.Close()
	if _, err := os.Stat(filepath.Join(filepath.Dir(socket), "unloaded")); err == nil {
		t.Error("it was unloaded")
	}
	if e, err := k.Lookup(uint32(os.Getpid())); err != nil || e.Flags&tracer.FlagProtected == 0 {
		t.Errorf("the daemon is not protected: %+v %v", e, err)
	}
}

func TestMemberMayNotServe(t *testing.T) {
	k := fakeKernel()
	_, err := k.Create(tracer.SessionSpec{Root: k.Proc(uint32(os.Getpid())).Identity})
	require.NoError(t, err)
	h := daemon.ThisHost()
	h.Open = func(tracer.Options) (daemon.Kernel, error) { return k, nil }
	socket := filepath.Join(t.TempDir(), "s")
	if err := h.Serve(t.Context(), daemon.Options{Socket: socket}, nil, zerolog.Nop()); !errors.Is(err, daemon.ErrMember) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("socket: %v", err)
	}
}

// A wrong descriptor from a service manager is refused before anything is loaded.
func TestPassedSocketRefused(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	h := daemon.ThisHost()
	h.Manager.Sockets = []*os.File{r}
	h.Open = func(tracer.Options) (daemon.Kernel, error) { return nil, errors.New("it was loaded") }
	err = h.Serve(t.Context(), daemon.Options{Socket: filepath.Join(t.TempDir(), "s")}, nil, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), ": not a socket") {
		t.Errorf("got %v", err)
	}
}

func TestUnload(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	i, err := system.InstanceOf(socket)
	require.NoError(t, err)
	i.Pins = filepath.Join(dir, "pins")
	require.NoError(t, os.Mkdir(i.Pins, 0o700))
	k := fakeKernel()
	k.Add(100, 1, "lngtest-root")
	_, err = k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity})
	require.NoError(t, err)
	h := daemon.ThisHost()
	h.Open = func(tracer.Options) (daemon.Kernel, error) { k.Reopen(); return k, nil }
	h.Unload = func(dir string) error { return os.RemoveAll(dir) }
	h.Live = func(dir, _ string) (int, error) {
		require.Equal(t, dir, i.Pins)
		return 1, nil
	}
	live := func(err error) bool {
		var e *api.Error
		return errors.As(err, &e) && e.Code == api.CodeLiveSessions
	}
	if err := h.TakeDown(t.Context(), i, false); !live(err) {
		t.Errorf("without daemon: %v", err)
	}
	stop := serveFake(t, k, daemon.Options{Socket: socket, Version: "lngtest"})
	if err := h.TakeDown(t.Context(), i, false); !live(err) {
		t.Errorf("with daemon: %v", err)
	}
	if err := h.TakeDown(t.Context(), i, true); err != nil {
		t.Errorf("forced: %v", err)
	}
	require.NoError(t, stop())
	if _, err := os.Stat(i.Pins); !os.IsNotExist(err) {
		t.Errorf("pins: %v", err)
	}
	if err := h.TakeDown(t.Context(), i, false); err != nil {
		t.Errorf("nothing to unload: %v", err)
	}
}

// TestSocketOfAnother: a listener that does not answer keeps the socket, like a daemon that is stopped, or a
// service manager while its daemon starts.
func TestSocketOfAnother(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer ln.Close()
	_, err = system.Connect(t.Context(), system.ConnectOptions{Socket: socket, Command: lngtestDaemon()})
	if !errors.Is(err, api.ErrSilent) || starts(t, dir) != 0 {
		t.Errorf("%v, %d starts", err, starts(t, dir))
	}
	i, err := system.InstanceOf(socket)
	require.NoError(t, err)
	if lock, alone, err := i.Claim(t.Context(), system.ClaimOptions{Started: true}); err == nil {
		alone.Release()
		lock.Release()
		t.Error("a daemon claims the socket of another program")
	}
	c, err := net.Dial("unix", socket)
	require.NoError(t, err)
	c.Close()
}
