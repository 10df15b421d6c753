//go:build linux

package system

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// begun is what a started daemon sees of itself.
type begun struct {
	PID, SID int
	Files    []string // open, besides the standard ones
}

// startedAs is a daemon that a command starts: it writes what it sees, and reports that it serves.
func startedAs(file string) int {
	p := InheritedPipe()
	b := begun{PID: os.Getpid()}
	b.SID, _ = unix.Getsid(0)
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, e := range fds {
		if n, _ := strconv.Atoi(e.Name()); n > 2 {
			to, _ := os.Readlink("/proc/self/fd/" + e.Name())
			b.Files = append(b.Files, to)
		}
	}
	text, err := json.Marshal(b)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	p.Report(err)
	return 0
}

// TestStartedApart: a daemon that a command starts leads its own POSIX session, where no Ctrl-C of
// the terminal reaches it, and holds no file of the command's caller: a lock in a script would last
// as long as the daemon.
func TestStartedApart(t *testing.T) {
	dir := t.TempDir()
	i := at(t, filepath.Join(dir, "s"))
	lock := filepath.Join(dir, "script.lock")
	fd, err := unix.Open(lock, unix.O_RDWR|unix.O_CREAT, 0o600) // inherited: not close-on-exec
	require.NoError(t, err)
	require.NoError(t, unix.Flock(fd, unix.LOCK_EX))
	seen := filepath.Join(dir, "seen")
	err = i.start(t.Context(), exec.Command("/proc/self/exe", "lngtest-started", seen))
	unix.Close(fd)
	require.NoError(t, err)
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	var b begun
	require.NoError(t, json.Unmarshal(text, &b))
	require.Equal(t, b.SID, b.PID)
	for _, to := range b.Files {
		if to == lock {
			t.Errorf("the caller's lock is open in the daemon: %q", b.Files)
		}
	}
}

// TestFailedStart: a daemon that failed is no child any more when that is said, although it takes its time to exit.
func TestFailedStart(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo refused >&3; exec 3>&-; sleep 0.3")
	if err := at(t, filepath.Join(t.TempDir(), "s")).start(t.Context(), cmd); err == nil || err.Error() != "refused" {
		t.Error(err)
	}
	require.ErrorIs(t, unix.Kill(cmd.Process.Pid, 0), unix.ESRCH, "the process of the daemon")
}

// TestConnectAgain: a daemon whose queue of callers is full, or that hangs up because it is stopping
// or has no room, is asked again, and no other one is started.
func TestConnectAgain(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: socket})
	}
	if err == nil {
		err = unix.Listen(fd, 0)
	}
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), socket)
	defer f.Close()
	var waiting []net.Conn
	for err == nil {
		var c net.Conn
		if c, err = net.Dial("unix", socket); err == nil {
			waiting = append(waiting, c)
		}
	}
	if !errors.Is(err, unix.EAGAIN) || len(waiting) == 0 {
		t.Fatalf("%d callers wait, and the next one gets %v", len(waiting), err)
	}
	none := func(string) *exec.Cmd { t.Error("a daemon was started"); return exec.Command("false") }
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // api.Dial alone tries for 2 s
	defer cancel()
	if _, err := Connect(ctx, ConnectOptions{Socket: socket, Command: none}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a full queue: %v, want that the daemon is asked until the time is over", err)
	}

	l, err := net.FileListener(f)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderAPI, strconv.Itoa(api.Major))
		json.NewEncoder(w).Encode(api.Version{API: api.Major})
	})}
	defer s.Close()
	go func() {
		for range len(waiting) + 3 { // those, and the first callers of Connect
			if c, err := l.Accept(); err == nil {
				c.Close()
			}
		}
		s.Serve(l)
	}()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Connect(ctx, ConnectOptions{Socket: socket, Command: none})
	require.NoError(t, err)
	c.Close()
}
