//go:build linux

package system

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// DefaultSocketMode lets everyone connect: the daemon checks every request by its
// caller.
const DefaultSocketMode = 0o666

type Listener struct {
	*net.UnixListener
	Remove func() // removes the socket, if this daemon made it
}

// Listen makes the instance's socket. Mode 0 is the default one, group "" is
// root's.
func (i Instance) Listen(mode os.FileMode, group string) (*Listener, error) {
	mode = cmp.Or(mode, DefaultSocketMode)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: i.Socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	ln.SetUnlinkOnClose(false) // the socket stays until everything is closed
	made, err := permit(i.Socket, mode, group)
	if err != nil {
		ln.Close()
		os.Remove(i.Socket)
		return nil, fmt.Errorf("set up socket: %w", err)
	}
	return &Listener{ln, func() {
		// A service manager that listens here has replaced it.
		var now unix.Stat_t
		if unix.Lstat(i.Socket, &now) == nil && now.Ino == made.Ino && now.Dev == made.Dev {
			os.Remove(i.Socket)
		}
	}}, nil
}

// permit gives the socket that we have just made its group and mode. If its directory is another
// user's, that user may have put something else in its place by now: only a socket of ours is
// changed, and no link is followed.
func permit(path string, mode os.FileMode, group string) (made unix.Stat_t, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return made, err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &made); err != nil {
		return made, err
	}
	if made.Mode&unix.S_IFMT != unix.S_IFSOCK || int(made.Uid) != os.Geteuid() || made.Nlink > 1 {
		return made, errors.New("it was replaced")
	}
	if group != "" {
		gid, err := GroupID(group)
		if err == nil {
			err = unix.Fchownat(fd, "", -1, gid, unix.AT_EMPTY_PATH)
		}
		if err != nil {
			return made, err
		}
	}
	return made, os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode) // fchmod(2) refuses O_PATH
}

func GroupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// Listener gives the socket that the manager made for the instance; nil if it made
// none.
func (m *Manager) Listener(i Instance) (*Listener, error) {
	if len(m.Sockets) == 0 {
		return nil, nil
	}
	defer func() {
		for _, f := range m.Sockets {
			f.Close()
		}
	}()
	if n := len(m.Sockets); n > 1 {
		return nil, fmt.Errorf("take the service manager's socket: it passed %d sockets; set one ListenStream=%s",
			n, i.Socket)
	}
	f := m.Sockets[0]
	if err := i.check(f); err != nil {
		return nil, fmt.Errorf("take the service manager's socket: descriptor %d: %w", f.Fd(), err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take the service manager's socket: %w", err)
	}
	unixListener, ok := ln.(*net.UnixListener)
	if !ok {
		ln.Close()
		return nil, fmt.Errorf("take the service manager's socket: %w: %T", errors.ErrUnsupported, ln)
	}
	unixListener.SetUnlinkOnClose(false)
	return &Listener{unixListener, func() {}}, nil
}

// check says what is wrong with a passed socket. Its path must be the instance's:
// with another one the daemon would serve other sessions than clients expect.
func (i Instance) check(f *os.File) error {
	fd := int(f.Fd())
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case err != nil:
		return fmt.Errorf("not a socket: %w", err)
	case domain != unix.AF_UNIX:
		return fmt.Errorf("not a unix socket; set ListenStream=%s", i.Socket)
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return fmt.Errorf("not a stream socket; set ListenStream=%s", i.Socket)
	}
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
		return errors.New("it does not listen; set Accept=no")
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("ask for its name: %w", err)
	}
	if name := sa.(*unix.SockaddrUnix).Name; resolved(name) != i.Socket {
		return fmt.Errorf("it is %s, not %s; set ListenStream=%[2]s, or --socket %[1]s", name, i.Socket)
	}
	return nil
}
