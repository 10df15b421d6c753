//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait for something that must happen. It decides nothing:
// a test that reaches it has failed already.
const patience = 30 * time.Second

// A marker is a FIFO that every process of one workload holds for writing. The
// kernel counts the writers, so its end of file is exact where a scan of /proc
// is not; the scan only names them.
type marker struct {
	t    *testing.T
	path string
	fd   int
	text []byte // read so far
}

// newMarker makes a FIFO in dir. When the test ends, whoever still holds it is
// an error and is killed.
func newMarker(t *testing.T, dir string) *marker {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("marker-%d", time.Now().UnixNano()))
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatalf("mkfifo %s: %v", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // whatever the umask
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	m := &marker{t: t, path: path, fd: fd}
	t.Cleanup(func() {
		if left := m.holders(); len(left) > 0 {
			t.Errorf("still alive at the end of the test: %v", left)
			m.kill()
		}
		unix.Close(fd)
		os.Remove(path)
	})
	return m
}

// env makes a program hold the marker and bounds its life.
func (m *marker) env() []string {
	return []string{"LNGTEST_MARKER=" + m.path, "LNGTEST_SECONDS=60"}
}

// drain reads what is there and reports whether a writer is left.
func (m *marker) drain() (alive bool) {
	m.t.Helper()
	buf := make([]byte, 64<<10)
	for {
		switch n, err := unix.Read(m.fd, buf); {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return true
		case err != nil:
			m.t.Fatalf("read %s: %v", m.path, err)
		case n == 0:
			return false
		default:
			m.text = append(m.text, buf[:n]...)
		}
	}
}

// wait reads until done or until patience ends.
func (m *marker) wait(what string, done func(alive bool) bool) {
	m.t.Helper()
	deadline := time.Now().Add(patience)
	for alive := m.drain(); !done(alive); alive = m.drain() {
		left := time.Until(deadline)
		if left <= 0 {
			m.t.Fatalf("no %s within %v; alive: %v; said: %q", what, patience, m.holders(), m.text)
		}
		// A FIFO whose writers are gone, or that has had none, polls as ready at
		// once or never: the time-out makes the loop look again.
		fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(min(left, 20*time.Millisecond).Milliseconds())); err != nil && err != unix.EINTR {
			m.t.Fatalf("poll %s: %v", m.path, err)
		} else if n > 0 && fds[0].Revents&unix.POLLIN == 0 {
			<-time.After(time.Millisecond)
		}
	}
}

// lines are the lines whose first word is word, without it.
func (m *marker) lines(word string) [][]string {
	var found [][]string
	for line := range strings.Lines(string(m.text)) {
		if f := strings.Fields(line); strings.HasSuffix(line, "\n") && len(f) > 0 && f[0] == word {
			found = append(found, f[1:])
		}
	}
	return found
}

// line waits for the n-th line that starts with word.
func (m *marker) line(word string, n int) []string {
	m.t.Helper()
	m.wait(fmt.Sprintf("line %q number %d", word, n), func(bool) bool { return len(m.lines(word)) >= n })
	return m.lines(word)[n-1]
}

// ready waits until the program has everything in place.
func (m *marker) ready() { m.t.Helper(); m.line("ready", 1) }

// members waits for n processes to come to rest: PID and creator of each.
func (m *marker) members(n int) map[int]int {
	m.t.Helper()
	m.line("member", n)
	creators := map[int]int{}
	for _, f := range m.lines("member") {
		creators[number(m.t, f[0])] = number(m.t, f[1])
	}
	return creators
}

// gone waits until nobody holds the marker.
func (m *marker) gone() {
	m.t.Helper()
	m.wait("end of the workload", func(alive bool) bool { return !alive })
}

// mustBeGone fails unless nobody holds the marker now.
func (m *marker) mustBeGone() {
	m.t.Helper()
	if m.drain() {
		m.t.Errorf("members are alive: %v", m.holders())
	}
}

// holders are the processes that hold the marker for writing, by a scan of every
// thread's files: a process whose leader has exited shows none in /proc/PID/fd.
func (m *marker) holders() []int {
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

func (m *marker) heldBy(dir string) bool {
	links, _ := filepath.Glob(dir + "/task/*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == m.path {
			return true
		}
	}
	return false
}

// kill ends the holders. The pidfd is opened first and the marker looked for
// again, so that a PID that went to somebody else meanwhile is not signalled.
func (m *marker) kill() {
	for range 100 {
		pids := m.holders()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if m.heldBy(filepath.Join("/proc", strconv.Itoa(pid))) {
				if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
					m.t.Errorf("kill %d: %v", pid, err)
				}
			}
			unix.Close(fd)
		}
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("want a number: %v", err)
	}
	return n
}

// status is one field of /proc/PID/status, "" if the process is gone.
func status(pid int, field string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(field+":")); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}
