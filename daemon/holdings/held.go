//go:build linux

package holdings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Lock is a lock on a file, and one process that has it.
type Lock struct {
	Kind    string // flock, posix, ofd, lease; file: a lock file that it holds open
	Mode    string // read, write; not of file
	Path    string // as the holder sees it, see [memory.ShortPath]; hostile
	Holder  tracer.Identity
	Waiting []int // PIDs that wait for it

	key string // of /proc/locks
}

// Same reports whether l and other are one lock, regardless of its holder.
func (l *Lock) Same(other *Lock) bool {
	return l.Kind == other.Kind && l.Path == other.Path && l.key == other.key
}

// Held is what processes hold. A socket or a lock that several processes have open is
// in it once for each.
type Held struct {
	Ports []Port
	Locks []Lock
	// Unknown names what could not be read: then there may be more.
	Unknown []string
}

func (h *Held) unknown(format string, args ...any) {
	if why := fmt.Sprintf(format, args...); len(h.Unknown) < chunk && !slices.Contains(h.Unknown, why) {
		h.Unknown = append(h.Unknown, why)
	}
}

// unread notes why looks at all processes are incomplete, in one note for the processes that
// may not be read. PID 1 does not matter if a holder was found: at most it has the same socket
// or file open.
func (h *Held) unread(found bool, looks ...error) {
	var hidden hiddenError
	for _, err := range looks {
		if pids, ok := errors.AsType[hiddenError](err); ok {
			hidden = append(hidden, pids...)
		} else if err != nil {
			h.unknown("%v", err)
		}
	}
	slices.Sort(hidden)
	hidden = slices.DeleteFunc(slices.Compact(hidden), func(pid uint32) bool { return pid == 1 && found })
	if len(hidden) > 0 {
		h.unknown("%v", hidden)
	}
}

// about adds what was looked for to an error, if it is one.
func about(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// allHeld reports whether there are ports, and each has a known holder.
func allHeld(ports []Port) bool {
	return len(ports) > 0 && !slices.ContainsFunc(ports, func(p Port) bool { return p.Holder.IsZero() })
}

// Fit keeps the first ports and locks, at most most of each, as long as take has the memory for them, and returns how much
// they take. It notes that there were more.
func (h *Held) Fit(most int, take func(bytes int) bool) (size int) {
	h.Unknown = slices.Clone(h.Unknown[:min(len(h.Unknown), maxWaiting)])
	fits := func(n int) bool {
		ok := take(n)
		if ok {
			size += n
		}
		return ok
	}
	h.Ports = fit(h, "ports", h.Ports, most,
		func(p *Port) bool { return fits(int(unsafe.Sizeof(*p)) + len(p.Path)) })
	h.Locks = fit(h, "locks", h.Locks, most, func(l *Lock) bool {
		return fits(int(unsafe.Sizeof(*l)) + len(l.Path) + len(l.key) + 8*len(l.Waiting))
	})
	return size
}

func fit[T any](h *Held, what string, all []T, most int, fits func(*T) bool) []T {
	for i := range all {
		if i == most || !fits(&all[i]) {
			h.unknown("%s: more than %d", what, i)
			return slices.Clone(all[:i]) // so that the rest is free
		}
	}
	return all
}

// Of reads what the processes hold. A dead process holds nothing.
func (r *Reader) Of(ctx context.Context, ids []tracer.Identity) Held {
	c := newCollection(r)
	var err error
	if c.waiting, c.anyLocks, err = r.waiters(); err != nil {
		c.unknown("locks: %v", err)
		c.anyLocks = true // check each file
	}
	var left, named atomic.Int64
	left.Store(maxDescriptors)
	c.named = &named
	keys := make([]procfs.Key, len(ids))
	for i, id := range ids {
		keys[i] = procfs.FS(r.Root).Key(id.PID)
	}
	parts := procfs.BoundedEach(keys, func(i int) (*collection, error) {
		defer r.countCPU()()
		return c.part(ctx, ids[i], &left)
	})
	for i, part := range parts {
		if part.Value != nil {
			c.add(part.Value)
		} else if errors.Is(part.Err, errTime) {
			c.unknown("%d of %d processes: %v", len(ids)-i, len(ids), errTime)
			break
		}
		if part.Err != nil {
			c.unknown("pid %d: %v", ids[i].PID, part.Err)
		}
		if errors.Is(part.Err, errMany) {
			break
		}
	}
	c.networks(ctx)
	slices.SortFunc(c.Ports, ComparePorts)
	slices.SortFunc(c.Locks, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Holder.PID, b.Holder.PID), cmp.Compare(a.key, b.key))
	})
	c.Locks = slices.CompactFunc(c.Locks, func(a, b Lock) bool { return a.Holder == b.Holder && a.Same(&b) }) // ids may name one twice
	return c.Held
}

func ComparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Proto, b.Proto), a.Local.Compare(b.Local), cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Netns, b.Netns), cmp.Compare(a.Holder.PID, b.Holder.PID))
}

type collection struct {
	Held
	reader   *Reader
	anyLocks bool
	named    *atomic.Int64                // locks, by all parts
	waiting  map[string][]int             // by lock key
	sockets  map[uint64][]tracer.Identity // the processes that have a socket open
	spaces   map[uint64][]tracer.Identity // the processes in a network namespace
}

func newCollection(r *Reader) *collection {
	return &collection{reader: r, sockets: make(map[uint64][]tracer.Identity),
		spaces: make(map[uint64][]tracer.Identity)}
}

// part reads one process, for add; nil if there was no time. It may run on when c is returned.
func (c *collection) part(ctx context.Context, id tracer.Identity, left *atomic.Int64) (*collection, error) {
	if ctx.Err() != nil {
		return nil, errTime
	}
	part := newCollection(c.reader)
	part.waiting, part.anyLocks, part.named = c.waiting, c.anyLocks, c.named
	before := int(left.Load())
	after := before
	err := part.process(ctx, id, &after)
	left.Add(int64(after - before))
	return part, err
}

func (c *collection) add(part *collection) {
	c.Locks = append(c.Locks, part.Locks...)
	for _, why := range part.Unknown {
		c.unknown("%s", why)
	}
	for inode, ids := range part.sockets {
		if holders := c.sockets[inode]; len(holders) == 0 || holders[len(holders)-1] != ids[0] { // ids may name one twice
			c.sockets[inode] = append(holders, ids...)
		}
	}
	for netns, ids := range part.spaces {
		c.spaces[netns] = append(c.spaces[netns], ids...)
	}
}

// process notes what one process holds; nothing if it is gone.
func (c *collection) process(ctx context.Context, id tracer.Identity, left *int) error {
	p, err := c.reader.openAs(id)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	p.bounded = true
	err = c.reader.descriptors(ctx, p, left, func(d *descriptor) error {
		if inode, ok := socketInode(d.link); ok {
			c.sockets[inode] = []tracer.Identity{id}
			return nil
		}
		if err := c.file(d, id); err != nil {
			c.unknown("pid %d: %v", id.PID, err)
		}
		return nil
	})
	if len(c.sockets) > 0 {
		netns, unread := p.namespace("net")
		if unread == nil {
			c.spaces[netns] = append(c.spaces[netns], id)
		}
		err = cmp.Or(err, unread)
	}
	if p.left(err) {
		return nil
	}
	return err
}

func (c *collection) file(d *descriptor, id tracer.Identity) error {
	if !strings.HasPrefix(d.link, "/") {
		return nil
	}
	if c.anyLocks {
		info, err := d.info()
		if err != nil && !gone(err) {
			return err
		}
		for _, e := range info.locks {
			c.lock(Lock{Kind: e.kind, Mode: e.mode, Path: memory.ShortPath(d.link),
				Holder: id, Waiting: c.waiting[e.key()], key: e.key()})
		}
		if len(info.locks) > 0 {
			return nil
		}
	}
	if strings.HasSuffix(d.link, ".lock") { // others take it as a lock while it exists, such as git's index.lock
		c.lock(Lock{Kind: "file", Path: memory.ShortPath(d.link), Holder: id})
	}
	return nil
}

func (c *collection) lock(l Lock) {
	same := func(o Lock) bool {
		return o.Holder == l.Holder && o.Same(&l)
	}
	switch {
	case slices.ContainsFunc(c.Locks, same):
	case c.named.Add(1) > maxFound:
		c.unknown("locks: more than %d", maxFound)
	default:
		c.Locks = append(c.Locks, l)
	}
}

// networks finds out which of the sockets listen, in the namespaces of their holders,
// in our own and in the host's: a socket stays where it was made.
func (c *collection) networks(ctx context.Context) {
	if len(c.sockets) == 0 {
		return
	}
	read := 0
	for netns, ids := range c.spaces {
		if read++; read > maxNamespaces {
			c.unknown("ports: more than %d network namespaces", maxNamespaces)
			break
		}
		n, err := c.reader.networkOf(ctx, netns, ids)
		if err != nil {
			c.unknown("ports: %v", err)
			continue
		}
		c.listen(n)
	}
	c.reader.selfAndInit(func(p *process) {
		netns, err := p.namespace("net")
		if _, done := c.spaces[netns]; err != nil || done {
			return
		}
		if n, err := p.network(ctx, netns, false); err == nil {
			c.listen(n)
		}
	})
}

// networkOf reads a namespace through any of its processes that still lives. If none
// does, its sockets are gone too.
func (r *Reader) networkOf(ctx context.Context, netns uint64, ids []tracer.Identity) (network, error) {
	var failed error
	for _, id := range ids {
		n, err := r.networkBy(ctx, netns, id)
		if err == nil {
			return n, nil
		}
		if !gone(err) && !errors.Is(err, errOtherSpace) {
			failed = err
		}
	}
	return network{}, failed
}

func (r *Reader) networkBy(ctx context.Context, netns uint64, id tracer.Identity) (n network, err error) {
	p, err := r.openIn(netns, id)
	if err != nil {
		return n, err
	}
	defer p.close()
	if n, err = p.network(ctx, netns, false); p.left(err) {
		err = errOther
	}
	return n, err
}

func (c *collection) listen(n network) {
	for inode, l := range n.listeners {
		for _, id := range c.sockets[inode] {
			if len(c.Ports) == maxFound {
				c.unknown("ports: more than %d", maxFound)
				return
			}
			c.Ports = append(c.Ports, l.port(inode, id))
		}
		delete(c.sockets, inode)
	}
}

// waiters reads /proc/locks: which processes wait for which lock, and whether there are
// any locks.
func (r *Reader) waiters() (waiting map[string][]int, any bool, err error) {
	waiting = make(map[string][]int)
	blocker := ""
	err = r.locks(func(e lockEntry, err error) {
		any = true
		switch {
		case err != nil:
			blocker = ""
		case !e.waiting:
			blocker = e.key()
		case blocker != "" && e.pid > 0 && len(waiting[blocker]) < maxWaiting:
			waiting[blocker] = append(waiting[blocker], e.pid)
		}
	})
	return waiting, any, err
}

func (r *Reader) locks(each func(lockEntry, error)) error {
	f, err := os.Open(filepath.Join(r.Root, "locks"))
	if err != nil {
		return err
	}
	defer f.Close()
	return lines(f, func(line string) error { each(parseLock(line)); return nil })
}
