//go:build linux

package holdings

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// The test binary also runs as a process that holds something: first word
// lngtest-resources. It prints "up" and stays until its standard input ends.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "lngtest-resources" {
		if err := hold(os.Args[2], os.Args[3:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func hold(what string, args []string) error {
	line := "up"
	switch what {
	case "tcp", "tcp6":
		l, err := net.Listen(what, args[0])
		if err != nil {
			return err
		}
		defer l.Close()
		line = l.Addr().String()
	case "udp":
		c, err := net.ListenPacket("udp4", args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		line = c.LocalAddr().String()
	case "unix":
		l, err := net.Listen("unix", args[0])
		if err != nil {
			return err
		}
		defer l.Close()
	case "client":
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		defer c.Close()
	case "flock", "posix", "ofd", "lease", "open", "wait":
		f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		fd := f.Fd()
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		switch what {
		case "flock":
			err = unix.Flock(int(fd), unix.LOCK_EX)
		case "posix":
			err = unix.FcntlFlock(fd, unix.F_SETLK, &lock)
		case "ofd":
			err = unix.FcntlFlock(fd, unix.F_OFD_SETLK, &lock)
		case "lease":
			_, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_WRLCK)
		case "wait":
			fmt.Println("up")
			return unix.Flock(int(fd), unix.LOCK_EX)
		}
		if err != nil {
			return err
		}
	case "thread": // a thread with its own descriptors holds the lock
		locked := make(chan error)
		go func() {
			runtime.LockOSThread()
			err := unix.Unshare(unix.CLONE_FILES)
			fd := -1
			if err == nil {
				fd, err = unix.Open(args[0], unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
			}
			if err == nil {
				err = unix.Flock(fd, unix.LOCK_EX)
			}
			locked <- err
			select {}
		}()
		if err := <-locked; err != nil {
			return err
		}
	case "netns":
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		// All of the process must be replaced: exec it.
		return unix.Exec("/proc/self/exe", append([]string{"lngtest", "lngtest-resources"}, args...), os.Environ())
	case "nothing":
	}
	fmt.Println(line)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

type holder struct {
	*testing.T
	id      tracer.Identity
	printed string
	cmd     *exec.Cmd
	in      io.Closer
}

func start(t *testing.T, args ...string) *holder {
	t.Helper()
	h := &holder{T: t, cmd: exec.Command("/proc/self/exe", append([]string{"lngtest-resources"}, args...)...)}
	in, err := h.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	h.in = in
	require.NoError(t, h.cmd.Start())
	t.Cleanup(h.stop)
	h.printed, err = bufio.NewReader(out).ReadString('\n')
	h.printed = strings.TrimSpace(h.printed)
	if err != nil || strings.Contains(h.printed, " ") {
		t.Fatalf("%v: %q %v", args, h.printed, err)
	}
	h.id, err = identify(uint32(h.cmd.Process.Pid))
	require.NoError(t, err)
	return h
}

func (h *holder) stop() {
	h.in.Close()
	h.cmd.Process.Kill()
	h.cmd.Wait()
}

func (h *holder) port() uint16 {
	_, text, _ := net.SplitHostPort(h.printed)
	n, err := strconv.ParseUint(text, 10, 16)
	require.NoError(h, err)
	return uint16(n)
}

func identify(pid uint32) (tracer.Identity, error) {
	return identifyIn("/proc")(pid)
}

func identifyIn(root string) func(uint32) (tracer.Identity, error) {
	return func(pid uint32) (tracer.Identity, error) {
		b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(int(pid)), "stat"))
		if errors.Is(err, os.ErrNotExist) {
			return tracer.Identity{}, tracer.ErrNotFound
		}
		if err != nil {
			return tracer.Identity{}, err
		}
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		start, err := strconv.ParseUint(string(f[19]), 10, 64)
		return tracer.Identity{PID: pid, Start: start}, err
	}
}

// readable drops unknown items that are due to processes which this test may not read,
// such as a PID 1 with more capabilities.
func readable(unknown []string) (rest []string) {
	for _, why := range unknown {
		if !strings.Contains(why, "could not be read") {
			rest = append(rest, why)
		}
	}
	return rest
}
