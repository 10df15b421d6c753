//go:build linux

package holdings

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// Port is a socket that others can reach, and one process that has it open.
type Port struct {
	Proto  string         // tcp, tcp6, udp, udp6, unix
	Local  netip.AddrPort // not of unix
	Path   string         // of unix: its name, which begins with @ if it is abstract
	Netns  uint64         // inode number of the network namespace
	Holder tracer.Identity

	inode uint64
}

// Looked reports whether a look found the socket, and not only an event of the kernel.
func (p *Port) Looked() bool { return p.inode != 0 }

// Same reports whether two are one port, regardless of socket and process.
func (p *Port) Same(q *Port) bool {
	return p.Proto == q.Proto && p.Local == q.Local && p.Path == q.Path
}

// Addr is the address alone, as users write it.
func (p *Port) Addr() string {
	if p.Proto == "unix" {
		return p.Path
	}
	return p.Local.Addr().String()
}

// Listening is a port that the kernel reported: its namespace is that of the process, if
// that still lives.
func (r *Reader) Listening(id tracer.Identity, local netip.AddrPort) Port {
	p := Port{Proto: "tcp", Local: local, Holder: id}
	if local.Addr().Is6() {
		p.Proto = "tcp6"
	}
	if dir, err := r.openAs(id); err == nil {
		p.Netns, _ = dir.namespace("net")
		dir.close()
	}
	return p
}

// listener is a listening socket of one network namespace.
type listener struct {
	proto string
	local netip.AddrPort
	path  string
	netns uint64
}

// network is what /proc/net shows of one network namespace.
type network struct {
	listeners map[uint64]listener // by socket inode
	orphans   []listener          // without inode: the kernel's own
	waits     map[uint16]int      // TIME_WAIT, by local port
}

var protocols = []string{"tcp", "tcp6", "udp", "udp6", "unix"}

// network reads the tables of the process's network namespace. Without waits it
// stops where the listeners do, which come first.
func (p *process) network(ctx context.Context, netns uint64, waits bool) (network, error) {
	n := network{listeners: make(map[uint64]listener), waits: make(map[uint16]int)}
	for _, proto := range protocols {
		if err := n.table(ctx, p, proto, netns, waits); err != nil {
			// This host has no IPv6, or no unix sockets.
			if errors.Is(err, unix.ENOENT) && proto != "tcp" {
				continue
			}
			return n, err
		}
	}
	return n, nil
}

func (n *network) table(ctx context.Context, p *process, proto string, netns uint64, waits bool) error {
	header := true
	err := p.table(ctx, proto, func(line string) error {
		if header {
			header = false
			return nil
		}
		if proto == "unix" {
			if path, inode, ok := parseUnix(line); ok {
				n.listeners[inode] = listener{proto: proto, path: path, netns: netns}
			}
			return nil
		}
		sk, err := parseSocket(line)
		if err == nil && !n.add(sk, proto, netns) && !waits && strings.HasPrefix(proto, "tcp") {
			err = io.EOF
		}
		return err
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// table calls each for every line of a table of the process's network namespace.
func (p *process) table(ctx context.Context, proto string, each func(line string) error) error {
	f, err := p.file("net/" + proto)
	if err != nil {
		return err
	}
	defer f.Close()
	return lines(f, func(line string) error {
		if ctx.Err() != nil {
			return errTime
		}
		return each(line)
	})
}

// add notes a socket and reports whether it listens.
func (n *network) add(sk resourcesSocket, proto string, netns uint64) bool {
	open := uint8(listening)
	if strings.HasPrefix(proto, "udp") {
		open = closed
	}
	switch {
	case sk.state == open && sk.inode != 0:
		n.listeners[sk.inode] = listener{proto: proto, local: sk.local, netns: netns}
	case sk.state == open:
		n.orphans = append(n.orphans, listener{proto: proto, local: sk.local, netns: netns})
	case sk.state == timeWait && open == listening:
		n.waits[sk.local.Port()]++
	}
	return sk.state == open
}

// selfAndInit calls each for the reader's own process and for the host's init: a service manager
// may give us namespaces that are not the host's. One that cannot be opened is skipped.
func (r *Reader) selfAndInit(each func(*process)) {
	for _, name := range []string{"self", "1"} {
		path := filepath.Join(r.Root, name)
		if dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			p := &process{dir: dir, path: path, r: r}
			each(p)
			p.close()
		}
	}
}

func socketInode(link string) (uint64, bool) { return bracketed(link, "socket") }

func (l *listener) port(inode uint64, holder tracer.Identity) Port {
	return Port{Proto: l.proto, Local: l.local, Path: l.path, Netns: l.netns, Holder: holder, inode: inode}
}

// String names the socket without its holder.
func (p *Port) String() string {
	if p.Proto == "unix" {
		return "unix " + p.Path
	}
	return p.Proto + " " + p.Local.String()
}

// connected is the state of a unix socket that has a peer, in /proc/net/unix.
const connected = "03"

// InUse reports whether clients use listening sockets of processes: a TCP connection to one is open
// or was closed less than a minute ago (TIME_WAIT), here or at a client on this host, or a unix
// socket has a peer. Of UDP nothing is known. It also reports true if that cannot be read.
func (r *Reader) InUse(ctx context.Context, ports []Port) bool {
	spaces := make(map[uint64][]tracer.Identity)
	for _, p := range ports {
		if !strings.HasPrefix(p.Proto, "udp") {
			spaces[p.Netns] = append(spaces[p.Netns], p.Holder)
		}
	}
	for netns, holders := range spaces {
		for _, id := range holders {
			used, err := r.usedBy(ctx, netns, id, ports)
			if gone(err) {
				continue // another holder may have the socket, too
			}
			if used || err != nil {
				return true
			}
			break
		}
	}
	return false
}

// usedBy reads the tables of a network namespace through a process that lives in it.
func (r *Reader) usedBy(ctx context.Context, netns uint64, id tracer.Identity,
	ports []Port) (used bool, err error) {
	p, err := r.openIn(netns, id)
	if err != nil {
		return false, err
	}
	defer p.close()
	protos := make(map[string]bool)
	for i := range ports {
		if ports[i].Netns == netns {
			protos[ports[i].Proto] = true
			if strings.HasPrefix(ports[i].Proto, "tcp") { // a socket of IPv6 takes clients of IPv4, too
				protos["tcp"], protos["tcp6"] = true, true
			}
		}
	}
	for proto := range protos {
		err := p.table(ctx, proto, func(line string) error {
			used = used || client(line, proto, netns, ports)
			return nil
		})
		if used || err != nil && !(gone(err) && proto == "tcp6") { // a host may have no IPv6
			return used, err
		}
	}
	return false, nil
}

// client reports whether a line of such a table is a connection to one of the ports.
func client(line, proto string, netns uint64, ports []Port) bool {
	f := strings.Fields(line)
	if proto == "unix" {
		if len(f) < 8 || f[5] != connected {
			return false
		}
		for i := range ports {
			if ports[i].Netns == netns && ports[i].Proto == "unix" && strings.HasSuffix(line,
				" "+ports[i].Path) {
				return true
			}
		}
		return false
	}
	sk, err := parseSocket(line)
	if err != nil || sk.state == listening {
		return false
	}
	remote, _ := parseAddr(f[2])
	own := remote.Addr().Unmap() == sk.local.Addr().Unmap() // the client's end, on this host
	for i := range ports {
		if p := &ports[i]; p.Netns == netns && strings.HasPrefix(p.Proto, "tcp") &&
			(reached(p, sk.local) || own && reached(p, remote)) {
			return true
		}
	}
	return false
}

// reached reports whether that address is one on which the port takes connections.
func reached(p *Port, addr netip.AddrPort) bool {
	return p.Local.Port() == addr.Port() && (p.Local.Addr().IsUnspecified() ||
		p.Local.Addr().Unmap() == addr.Addr().Unmap())
}
