//go:build linux

package attribution

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

const (
	maxSockets = 256 // of one process
	maxFiles   = 16384
)

type Socket struct {
	// Listener is the process that began to listen, where this one has connected; 0: it has not.
	Listener uint32
	// Path is what that socket, or this one if it listens, is bound to.
	Path string
}

// Sockets returns unix sockets of a process that have connected, or that listen. It asks the kernel about copies of their
// descriptors: what a process says of itself does not matter.
func Sockets(proc procfs.FS, pid uint32) ([]Socket, error) {
	// What is meanwhile at a descriptor may be a file of a dead file server.
	return procfs.Bounded(proc.Key(pid), func() (all []Socket, err error) {
		fd, err := unix.PidfdOpen(int(pid), 0)
		if err != nil {
			return nil, fmt.Errorf("open pid %d: %w", pid, err)
		}
		defer unix.Close(fd)
		n := 0
		err = files(proc, pid, func(name, to string) bool {
			if !strings.HasPrefix(to, "socket:") {
				return false
			}
			copied, err := copyOf(fd, name, proc.Path(pid, "fd/"+name))
			if err != nil {
				return false // it was closed, or the process is gone
			}
			if s, ok := socketOf(copied); ok {
				all = append(all, s)
			}
			unix.Close(copied)
			n++
			return n == maxSockets
		})
		return all, err
	})
}

var errOther = errors.New("not a unix socket")

// copyOf copies the descriptor of a unix socket. Any other one is not copied: the copy may be the last to be closed, and that
// waits for the socket's peer for as long as the process has set.
func copyOf(process int, name, path string) (copied int, err error) {
	number, err := strconv.Atoi(name)
	if err != nil {
		return 0, fmt.Errorf("descriptor: %w", err)
	}
	protocol := make([]byte, 32)
	if _, err := unix.Getxattr(path, "system.sockprotoname", protocol); err != nil {
		return 0, fmt.Errorf("protocol of %s: %w", path, err)
	}
	if !strings.HasPrefix(string(protocol), "UNIX") {
		return 0, errOther
	}
	return unix.PidfdGetfd(process, number, 0)
}

func socketOf(fd int) (s Socket, ok bool) {
	own, err := unix.Getsockname(fd)
	name, ok := bound(own)
	if err != nil || !ok {
		return s, false
	}
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && listens == 1 {
		return Socket{Path: name}, true
	}
	peer, err := unix.Getpeername(fd)
	if err != nil || name != "" { // the end that a listener accepted has the listener's name
		return s, false
	}
	by, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	path, ok := bound(peer)
	if err != nil || !ok || path == "" || by.Pid <= 0 {
		return s, false
	}
	return Socket{uint32(by.Pid), path}, true
}

// bound is what a unix socket is bound to, "" if it is not.
func bound(a unix.Sockaddr) (path string, ok bool) {
	s, ok := a.(*unix.SockaddrUnix)
	if !ok {
		return "", false
	}
	return strings.TrimPrefix(s.Name, "@"), true // package unix writes @ for the NUL of an abstract name, and for no name
}

// files calls f for the open files of a process, until it returns true. The caller bounds it.
func files(proc procfs.FS, pid uint32, f func(name, to string) bool) error {
	dir, err := os.Open(proc.Path(pid, "fd"))
	if err != nil {
		return fmt.Errorf("list files of pid %d: %w", pid, err)
	}
	defer dir.Close()
	open, err := dir.Readdirnames(maxFiles)
	if err != nil {
		return fmt.Errorf("list files of pid %d: %w", pid, err)
	}
	for _, name := range open {
		if f(name, proc.Link(pid, "fd/"+name)) {
			break
		}
	}
	return nil
}

// engines finds docker's daemons. A process that may connect to one may end everything in its containers.
type engines struct {
	proc    procfs.FS
	self    uint32
	sockets func(pid uint32) ([]Socket, error)
}

// of returns the engine that a client is connected to, 0: none. Its socket may be systemd's: passed returns the engines that
// have got one, by its path.
func (e engines) of(client uint32, passed func() map[string]uint32) uint32 {
	connected, err := e.sockets(client)
	if err != nil {
		return 0
	}
	for _, s := range connected {
		switch {
		case s.Listener == 1:
			if engine := passed()[s.Path]; engine != 0 {
				return engine
			}
		case s.Listener != 0 && e.is(s.Listener):
			return s.Listener
		}
	}
	return 0
}

// listening are the engines, by the sockets on which they listen.
func (e engines) listening() map[string]uint32 {
	on := make(map[string]uint32)
	all, err := e.proc.Stats()
	if err != nil {
		return on
	}
	for _, p := range all {
		if p.Comm != "dockerd" || !e.is(p.PID) {
			continue
		}
		sockets, err := e.sockets(p.PID)
		for _, s := range sockets {
			if err == nil && s.Listener == 0 {
				on[s.Path] = p.PID
			}
		}
	}
	return on
}

// is reports whether a process is an engine of root's on this host.
func (e engines) is(pid uint32) bool {
	return procfs.Base(e.proc.Link(pid, "exe")) == "dockerd" && e.proc.OfHost(pid, e.self)
}

// serves reports whether an engine has a container: it holds the pipes of the container's output while that runs.
func (e engines) serves(engine uint32, container string) bool {
	found, err := procfs.Bounded(e.proc.Key(engine), func() (found bool, err error) {
		err = files(e.proc, engine, func(_, to string) bool {
			found = strings.Contains(to, "/"+container+"/")
			return found
		})
		return found, err
	})
	return found && err == nil
}
