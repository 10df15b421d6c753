//go:build linux

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// Patience is that of all tests.
var Patience = require.Patience

// A Marker is a FIFO that every process of one workload holds for writing. The kernel counts the writers: its end of
// file is exact; a scan of /proc only names them.
type Marker struct {
	T    *testing.T
	Path string
	fd   int
	Text []byte // read so far
}

// NewMarker makes a FIFO in dir. When the test ends, a process that still holds it is
// an error and is killed.
func NewMarker(t *testing.T, dir string) *Marker {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("marker-%d", time.Now().UnixNano()))
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatalf("mkfifo %s: %v", path, err)
	}
	require.NoError(t, os.Chmod(path, 0o666)) // whatever the umask
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	m := &Marker{T: t, Path: path, fd: fd}
	t.Cleanup(func() {
		if left := m.Holders(); len(left) > 0 {
			t.Errorf("still alive at the end of the test: %v", left)
			m.Kill()
		}
		unix.Close(fd)
		os.Remove(path)
	})
	return m
}

// Env makes a program hold the marker and limits its lifetime.
func (m *Marker) Env() []string {
	return []string{"LNGTEST_MARKER=" + m.Path, "LNGTEST_SECONDS=60"}
}

// Drain reads what is there and reports whether a writer is left.
func (m *Marker) Drain() (alive bool) {
	m.T.Helper()
	buf := make([]byte, 64<<10)
	for {
		switch n, err := unix.Read(m.fd, buf); {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return true
		case err != nil:
			m.T.Fatalf("read %s: %v", m.Path, err)
		case n == 0:
			return false
		default:
			m.Text = append(m.Text, buf[:n]...)
		}
	}
}

// Wait reads until done, for at most Patience.
func (m *Marker) Wait(what string, done func(alive bool) bool) {
	m.T.Helper()
	deadline := time.Now().Add(Patience)
	for alive := m.Drain(); !done(alive); alive = m.Drain() {
		left := time.Until(deadline)
		if left <= 0 {
			m.T.Fatalf("no %s within %v; alive: %v; said: %q", what, Patience, m.Holders(), m.Text)
		}
		// A FIFO whose writers are gone, or that has had none, polls as ready either at
		// once or never: the timeout makes the loop look again.
		fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(min(left, 20*time.Millisecond).Milliseconds())); err != nil && err != unix.EINTR {
			m.T.Fatalf("poll %s: %v", m.Path, err)
		} else if n > 0 && fds[0].Revents&unix.POLLIN == 0 {
			<-time.After(time.Millisecond)
		}
	}
}

// Lines are the lines whose first word is word, without it.
func (m *Marker) Lines(word string) [][]string {
	var found [][]string
	for line := range strings.Lines(string(m.Text)) {
		if f := strings.Fields(line); strings.HasSuffix(line, "\n") && len(f) > 0 && f[0] == word {
			found = append(found, f[1:])
		}
	}
	return found
}

// Line waits for the n-th line that starts with word.
func (m *Marker) Line(word string, n int) []string {
	m.T.Helper()
	m.Wait(fmt.Sprintf("line %q number %d", word, n), func(bool) bool { return len(m.Lines(word)) >= n })
	return m.Lines(word)[n-1]
}

// Ready waits until the program has everything in place.
func (m *Marker) Ready() { m.T.Helper(); m.Line("ready", 1) }

// Members waits until n processes are in place: PID and creator of each.
func (m *Marker) Members(n int) map[int]int {
	m.T.Helper()
	m.Line("member", n)
	creators := map[int]int{}
	for _, f := range m.Lines("member") {
		creators[Number(m.T, f[0])] = Number(m.T, f[1])
	}
	return creators
}

// Gone waits until no process holds the marker.
func (m *Marker) Gone() {
	m.T.Helper()
	m.Wait("end of the workload", func(alive bool) bool { return !alive })
}

// MustBeGone fails if a process holds the marker now.
func (m *Marker) MustBeGone() {
	m.T.Helper()
	if m.Drain() {
		m.T.Errorf("members are alive: %v", m.Holders())
	}
}

// Holders are the processes that hold the marker, by every thread's files: an exited leader shows none.
func (m *Marker) Holders() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid != os.Getpid() && m.heldBy(dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (m *Marker) heldBy(dir string) bool {
	links, _ := filepath.Glob(dir + "/task/*/fd/*")
	return slices.ContainsFunc(links, func(link string) bool {
		to, _ := os.Readlink(link)
		return to == m.Path
	})
}

// Kill ends the holders. The pidfd is opened first and the marker checked again, so
// that a PID that was reused meanwhile is not signalled.
func (m *Marker) Kill() {
	for range 100 {
		pids := m.Holders()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if m.heldBy(filepath.Join("/proc", strconv.Itoa(pid))) {
				if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil &&
					!errors.Is(err, unix.ESRCH) {
					m.T.Errorf("kill %d: %v", pid, err)
				}
			}
			unix.Close(fd)
		}
	}
}

// Number reads a number that a program printed.
func Number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// ProcStatus is one field of /proc/PID/status, "" if the process is gone.
func ProcStatus(pid int, field string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(field+":")); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}
