//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// theatre is the socket that puppets (testdata/programs/puppet.c) connect to, and the
// names that they exec under.
type theatre struct {
	socket string
	listen int
	names  map[string]string // to the paths of the program
	comms  map[string]string
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	program, err := filepath.Abs("../bin/testdata/lngtest-puppet")
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run make programs", err)
	}
	dir := t.TempDir()
	x := &theatre{socket: filepath.Join(dir, "s"), names: map[string]string{}, comms: map[string]string{}}
	for _, name := range []string{"nests", "plain", "crowd", "other"} {
		// An agent's name opens sessions on the whole host: another run must not share it.
		x.comms[name] = fmt.Sprintf("l%s-%d", name, os.Getpid())
		x.names[name] = filepath.Join(dir, x.comms[name])
		require.NoError(t, os.Symlink(program, x.names[name]))
	}
	x.listen, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(x.listen) })
	require.NoError(t, errors.Join(unix.Bind(x.listen, &unix.SockaddrUnix{Name: x.socket}), unix.Listen(x.listen, 16), bound(x.listen)))
	return x
}

// bound limits every wait on a socket.
func bound(fd int) error {
	limit := unix.NsecToTimeval(int64(patience))
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
}

// keeper starts the puppet that all others descend from.
func (x *theatre) keeper() (*exec.Cmd, int, error) {
	cmd := exec.Command(x.names["other"], x.socket)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	channel, _, err := x.accept()
	if err == nil {
		_, err = ask(channel, "keep")
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return cmd, channel, err
}

// accept returns the channel of a puppet that has started, and its PID.
func (x *theatre) accept() (channel int, pid uint32, err error) {
	channel, _, err = unix.Accept4(x.listen, unix.SOCK_CLOEXEC)
	for errors.Is(err, unix.EINTR) { // with a timeout no system call is restarted
		channel, _, err = unix.Accept4(x.listen, unix.SOCK_CLOEXEC)
	}
	if err != nil {
		return -1, 0, fmt.Errorf("accept: %w", err)
	}
	if err := bound(channel); err != nil {
		return channel, 0, err
	}
	said, err := hear(channel)
	if err == nil {
		_, err = fmt.Sscanf(said, "up %d", &pid)
	}
	return channel, pid, err
}

// clear takes the channel of a puppet that was killed before it ran, with its parent.
func (x *theatre) clear() {
	for {
		at := []unix.PollFd{{Fd: int32(x.listen), Events: unix.POLLIN}}
		if n, err := unix.Poll(at, 0); n != 1 || err != nil {
			return
		}
		if channel, _, err := x.accept(); channel > 0 && err != nil {
			unix.Close(channel)
		}
	}
}

var errGone = errors.New("it is gone")

// hear returns the next message of a puppet; errGone if it is dead.
func hear(channel int) (string, error) {
	var b [1024]byte
	n, err := unix.Read(channel, b[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(channel, b[:])
	}
	if n == 0 && err == nil || errors.Is(err, unix.ECONNRESET) {
		err = errGone
	}
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

func ask(channel int, command string) (string, error) {
	if err := unix.Sendto(channel, []byte(command), unix.MSG_NOSIGNAL, nil); err != nil {
		if errors.Is(err, unix.EPIPE) {
			err = errGone
		}
		return "", err
	}
	return hear(channel)
}

// gone reports whether no process holds the other end of a puppet's channel: a proof by
// the kernel that is independent of what is being tested.
func gone(channel int) bool {
	var b [16]byte
	n, _, err := unix.Recvfrom(channel, b[:], unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return n == 0 && err == nil || errors.Is(err, unix.ECONNRESET)
}

// waited waits for the keeper, which has waited for all others.
func waited(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		cmd.Process.Kill()
		return fmt.Errorf("still not after %v: every puppet is gone; %w", patience, <-done)
	}
}

func fields(said, first string) ([]uint32, error) {
	words := strings.Fields(said)
	if len(words) == 0 || words[0] != first {
		return nil, fmt.Errorf("it said %q, want %s", said, first)
	}
	var all []uint32
	for _, w := range words[1:] {
		var n uint32
		if _, err := fmt.Sscan(w, &n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
