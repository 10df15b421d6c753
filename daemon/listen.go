//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// door is where clients come in.
type door struct {
	*net.UnixListener
	remove func() // takes the socket away, if it is ours
}

// listen makes the instance's socket.
func listen(i instance, o Options) (*door, error) {
	mode := o.SocketMode
	if mode == 0 {
		mode = defaultSocketMode
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: i.socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	ln.SetUnlinkOnClose(false) // the socket stays until everything is closed
	if o.SocketGroup != "" {
		if err = chgrp(i.socket, o.SocketGroup); err == nil {
			err = os.Chmod(i.socket, mode)
		}
	} else {
		err = os.Chmod(i.socket, mode)
	}
	var made unix.Stat_t
	if err == nil {
		err = unix.Lstat(i.socket, &made)
	}
	if err != nil {
		ln.Close()
		os.Remove(i.socket)
		return nil, fmt.Errorf("set up socket: %w", err)
	}
	return &door{ln, func() {
		// A service manager that was told to listen here has replaced it.
		var now unix.Stat_t
		if unix.Lstat(i.socket, &now) == nil && now.Ino == made.Ino && now.Dev == made.Dev {
			os.Remove(i.socket)
		}
	}}, nil
}

func chgrp(path, group string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, -1, gid)
}

// door gives the socket that the manager made for the instance; nil if it made
// none.
func (m *manager) door(i instance) (*door, error) {
	if len(m.sockets) == 0 {
		return nil, nil
	}
	defer func() {
		for _, f := range m.sockets {
			f.Close()
		}
	}()
	if n := len(m.sockets); n > 1 {
		return nil, fmt.Errorf("take the service manager's socket: it passed %d, want one, ListenStream=%s", n, i.socket)
	}
	f := m.sockets[0]
	if err := fitting(i, f); err != nil {
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
	return &door{unixListener, func() {}}, nil
}

// fitting says what is wrong with a socket that was passed. Its path names the
// instance: with another one we would serve other sessions than clients expect.
func fitting(i instance, f *os.File) error {
	fd := int(f.Fd())
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case err != nil:
		return fmt.Errorf("no socket: %w", err)
	case domain != unix.AF_UNIX:
		return fmt.Errorf("no unix socket; set ListenStream=%s", i.socket)
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return fmt.Errorf("no stream socket; set ListenStream=%s", i.socket)
	}
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
		return errors.New("it does not listen; set Accept=no")
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("ask for its name: %w", err)
	}
	if name := sa.(*unix.SockaddrUnix).Name; resolved(name) != i.socket {
		return fmt.Errorf("it is %s, not %s; set ListenStream=%[2]s, or --socket %[1]s", name, i.socket)
	}
	return nil
}
