//go:build linux

package holdings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// Listeners finds the processes that listen on a port, in every network namespace;
// proto is tcp or udp. It looks at the PIDs of first before it looks at all, for which the time may be
// too short. A socket whose holder is not found has no Holder. Waits is how
// many connections of that port are in TIME_WAIT.
func (r *Reader) Listeners(ctx context.Context, proto string, port uint16,
	first ...string) (held Held, waits int) {
	found := make(map[uint64]listener)
	spaces := make(map[uint64]bool)
	take := func(p *process) error {
		netns, err := p.namespace("net")
		if err != nil || spaces[netns] {
			return err
		}
		if len(spaces) == maxNamespaces {
			return fmt.Errorf("more than %d network namespaces", maxNamespaces)
		}
		spaces[netns] = true
		n, err := p.network(ctx, netns, true)
		if err != nil {
			return err
		}
		mine := func(l *listener) bool {
			return strings.TrimSuffix(l.proto,
				"6") == proto && l.local.Port() == port
		}
		for inode, l := range n.listeners {
			if mine(&l) {
				found[inode] = l
			}
		}
		for _, l := range n.orphans {
			if mine(&l) {
				held.Ports = append(held.Ports, l.port(0, tracer.Identity{}))
			}
		}
		if proto == "tcp" {
			waits += n.waits[port]
		}
		return nil
	}
	r.selfAndInit(func(p *process) {
		if err := take(p); err != nil && !denied(err) { // host reports that
			held.unknown("ports: %v", err)
		}
	})
	if len(first) > 0 { // the host's look tells what cannot be read of them
		few := &Reader{Root: r.Root, Identify: r.Identify, sameFiles: r.sameFiles, only: first}
		_ = few.host(ctx, take)
		_ = few.holders(ctx, found, &held)
	}
	networks := r.host(ctx, take)
	holders := r.holders(ctx, found, &held)
	held.unread(allHeld(held.Ports), about("ports", networks), about("holders", holders))
	slices.SortFunc(held.Ports, ComparePorts)
	return held, waits
}

// holders finds every process that has one of the sockets open.
func (r *Reader) holders(ctx context.Context, found map[uint64]listener, held *Held) error {
	if len(found) == 0 {
		return nil
	}
	links := make(map[string]bool, len(found))
	for inode := range found {
		links[fmt.Sprintf("socket:[%d]", inode)] = true
	}
	held.Ports = slices.DeleteFunc(held.Ports, func(p Port) bool { return p.Looked() && p.Holder.IsZero() }) // of an earlier look
	err := r.openOn(ctx, func(link string) bool { return links[link] }, func(d *descriptor, id tracer.Identity) {
		inode, _ := socketInode(d.link)
		l := found[inode]
		p := l.port(inode, id)
		if !slices.Contains(held.Ports, p) && len(held.Ports) < maxFound {
			held.Ports = append(held.Ports, p)
		}
	})
	for inode, l := range found {
		if !slices.ContainsFunc(held.Ports, func(p Port) bool { return p.inode == inode }) {
			held.Ports = append(held.Ports, l.port(inode, tracer.Identity{}))
		}
	}
	return err
}

// openOn calls each for the descriptors of the host whose link is wanted, with the
// process that has them.
func (r *Reader) openOn(ctx context.Context, wanted func(link string) bool,
	each func(*descriptor, tracer.Identity)) error {
	left := maxDescriptors
	return r.host(ctx, func(p *process) error {
		return r.descriptors(ctx, p, &left, func(d *descriptor) error {
			if !wanted(d.link) {
				return nil
			}
			id, err := r.identity(p)
			if err != nil {
				return err
			}
			each(d, id)
			return nil
		})
	})
}

type File struct {
	Path   string // as the holder sees it; hostile
	Access string // read, write, read_write, or "" if unknown
	Holder tracer.Identity
}

// Wanted names a file. Device and Inode are those of its stat(2), and 0 if only the
// path is known: then it is the file of that path in our mount namespace, or in that of
// the host's init: a service manager may give us our own.
type Wanted struct {
	Path          string
	Device, Inode uint64
}

// Holders finds the processes that have a file open, and their locks on it. It never
// touches the file itself. Mapped files, working directories and roots do not count.
func (r *Reader) Holders(ctx context.Context, w Wanted) (files []File, held Held) {
	m := matcher{reader: r, wanted: w, mounts: make(map[uint64]string), spaces: make(map[uint64]bool)}
	waiting, _, err := r.waiters()
	if err != nil {
		held.unknown("locks: %v", err)
	}
	m.namespaces = r.mountNamespaces()
	sockets := r.unixSockets(ctx, w.Path, &held)
	left := maxDescriptors
	err = r.host(ctx, func(p *process) error {
		var id tracer.Identity
		who := func() (err error) {
			if id.IsZero() {
				id, err = r.identity(p)
			}
			return err
		}
		return r.descriptors(ctx, p, &left, func(d *descriptor) error {
			if inode, ok := socketInode(d.link); ok {
				if l, ok := sockets[inode]; ok && len(held.Ports) < maxFound {
					if err := who(); err != nil {
						return err
					}
					held.Ports = append(held.Ports, l.port(inode, id))
				}
				return nil
			}
			if !strings.HasPrefix(d.link, "/") || len(files) == maxFound {
				return nil
			}
			info, ok, err := m.match(p, d)
			if err != nil || !ok {
				return err
			}
			if err := who(); err != nil {
				return err
			}
			f := File{Path: memory.ShortPath(d.link), Access: resourcesAccess(info.flags), Holder: id}
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
			for _, e := range info.locks {
				l := Lock{Kind: e.kind, Mode: e.mode, Path: f.Path, Holder: id,
					Waiting: waiting[e.key()], key: e.key()}
				if !slices.ContainsFunc(held.Locks, func(o Lock) bool { return o.Holder == l.Holder && o.key == l.key }) && len(held.Locks) < maxFound {
					held.Locks = append(held.Locks, l)
				}
			}
			return nil
		})
	})
	held.unread(len(files) > 0 || allHeld(held.Ports), about("holders", err))
	return files, held
}

// mountNamespaces returns our mount namespace and that of the host's init.
func (r *Reader) mountNamespaces() (all []uint64) {
	r.selfAndInit(func(p *process) {
		if ns, err := p.namespace("mnt"); err == nil {
			all = append(all, ns)
		}
	})
	return all
}

// unixSockets returns the listening unix sockets of a name in our network namespace and
// in that of the host's init.
func (r *Reader) unixSockets(ctx context.Context, path string, held *Held) map[uint64]listener {
	n := network{listeners: make(map[uint64]listener)}
	r.selfAndInit(func(p *process) {
		netns, err := p.namespace("net")
		if err != nil {
			return
		}
		if err := n.table(ctx, p, "unix", netns, false); err != nil && !errors.Is(err, unix.ENOENT) {
			held.unknown("unix sockets: %v", err)
		}
	})
	for inode, l := range n.listeners {
		if l.path != path {
			delete(n.listeners, inode)
		}
	}
	return n.listeners
}

// matcher compares open files with the wanted one.
type matcher struct {
	reader     *Reader
	wanted     Wanted
	namespaces []uint64          // the mount namespaces in which the path is the wanted file
	mounts     map[uint64]string // device by mount id, of all namespaces read
	spaces     map[uint64]bool   // mount namespaces read
}

func (m *matcher) match(p *process, d *descriptor) (fdinfo, bool, error) {
	info, err := d.info()
	if gone(err) {
		return info, false, nil // closed meanwhile
	}
	if err != nil {
		return info, false, err
	}
	if d.link == m.wanted.Path && (m.wanted.Inode == 0 || info.inode == 0 || info.inode == m.wanted.Inode) {
		if ns, err := p.namespace("mnt"); err != nil || slices.Contains(m.namespaces, ns) {
			return info, err == nil, err
		}
	}
	if m.wanted.Inode == 0 || info.inode != m.wanted.Inode {
		return info, false, nil
	}
	device, err := m.device(p, info.mount)
	want := fmt.Sprintf("%d:%d", unix.Major(m.wanted.Device), unix.Minor(m.wanted.Device))
	return info, device == want, err
}

// device returns the device of a mount, from the mountinfo of a process that has a file
// of it open.
func (m *matcher) device(p *process, mount uint64) (string, error) {
	if dev, ok := m.mounts[mount]; ok {
		return dev, nil
	}
	ns, err := p.namespace("mnt")
	if err != nil || m.spaces[ns] || len(m.spaces) == maxNamespaces {
		return "", err
	}
	m.spaces[ns] = true
	f, err := p.file("mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = lines(f, func(line string) error {
		if id, dev, ok := parseMount(line); ok {
			m.mounts[id] = dev
		}
		return nil
	})
	return m.mounts[mount], err
}

func resourcesAccess(flags int64) string {
	if flags < 0 {
		return ""
	}
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		return "read"
	case unix.O_WRONLY:
		return "write"
	}
	return "read_write"
}

// Output names the pipe or socket that is a process's standard output; "" for anything
// else, because no reader waits for the end of that.
func (r *Reader) Output(id tracer.Identity) (string, error) {
	p, err := r.openAs(id)
	if err != nil {
		return "", err
	}
	defer p.close()
	link, err := p.link("fd/1")
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case err != nil:
		return "", err
	case strings.HasPrefix(link, "pipe:["), strings.HasPrefix(link, "socket:["):
		return link, nil
	}
	return "", nil
}

// Writers finds which of these processes can write to what Output named, so that its
// reader does not see the end.
func (r *Reader) Writers(ctx context.Context, output string,
	among []tracer.Identity) (writers []tracer.Identity, err error) {
	left, seen := maxDescriptors, make(map[tracer.Identity]bool)
	for _, id := range among {
		if ctx.Err() != nil {
			return writers, errTime
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		writes, e := r.writes(ctx, id, output, &left)
		if writes {
			writers = append(writers, id)
		}
		if e != nil && !gone(e) {
			err = e
		}
	}
	return writers, err
}

// writes reports whether a process can write to output.
func (r *Reader) writes(ctx context.Context, id tracer.Identity, output string,
	left *int) (writes bool, err error) {
	p, err := r.openAs(id)
	if err != nil {
		return false, err
	}
	defer p.close()
	err = r.descriptors(ctx, p, left, func(d *descriptor) error {
		if d.link != output {
			return nil
		}
		info, err := d.info()
		writes = writes || err == nil && resourcesAccess(info.flags) != "read"
		return nil
	})
	return writes, err
}
