package lineage

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/lineage/memory"
)

// Image is one distinct command line, shared by all processes that run or ran it, and by their
// events. What it shows never changes.
type Image struct {
	Comm, Exe string
	Argv      []string // the same for all who ask: of 4,095 empty arguments each copy would take 64 KiB
	Truncated bool     // Argv is only the beginning

	key  string // "comm NUL exe NUL flag argv" with argv as the kernel gives it
	uid  uint32 // that the memory is booked for
	refs int
	bare *Image
}

// Size is roughly the memory of i: text, arguments, struct and map slot.
func (i *Image) Size() int { return len(i.Comm) + len(i.Exe) + memory.ArgvSize(i.Argv) + 170 }

// Bare is i without its arguments, made once: for who keeps many. Only the owner of its graph calls it.
func (i *Image) Bare() *Image {
	if i.bare == nil {
		i.bare = &Image{Comm: i.Comm, Exe: memory.ShortPath(i.Exe), Truncated: i.Truncated || len(i.Argv) > 0}
	}
	return i.bare
}

func join(argv []string) []byte {
	if len(argv) == 0 {
		return nil
	}
	return []byte(strings.Join(argv, "\x00") + "\x00")
}

func split(args string) []string {
	if args == "" {
		return nil
	}
	return slices.Clip(strings.Split(strings.TrimSuffix(args, "\x00"), "\x00"))
}

// images holds every command line once. Those of live processes have to stay, so of a user with
// too many only the beginnings are kept.
type images struct {
	byKey   map[string]*Image
	scratch []byte
	share   *memory.Share
}

// intern returns the image of a command, with a reference for the caller. It is booked for the
// first user that ran the command.
func (t *images) intern(uid uint32, comm, exe, argv []byte, truncated bool) *Image {
	i := t.find(comm, exe, argv, truncated)
	if i.refs == 0 && !t.share.Take(uid, i.Size()) {
		short, cut := memory.ShortArgv(i.Argv)
		i = t.find(comm, exe, join(short), truncated || cut)
		if i.refs == 0 {
			t.share.Book(uid, i.Size())
		}
	}
	if i.refs == 0 {
		i.uid = uid
		t.byKey[i.key] = i
	}
	i.refs++
	return i
}

// find returns the image of a command: a new one without references, unless there is one.
func (t *images) find(comm, exe, argv []byte, truncated bool) *Image {
	key := append(t.scratch[:0], untilNUL(comm)...)
	key = append(key, 0)
	exeAt := len(key)
	key = append(key, untilNUL(exe)...)
	flag := byte('f')
	if truncated {
		flag = 't'
	}
	key = append(key, 0, flag)
	argvAt := len(key)
	key = append(key, argv...)
	t.scratch = key
	i := t.byKey[string(key)]
	if i == nil {
		text := string(key)
		i = &Image{Comm: text[:exeAt-1], Exe: text[exeAt : argvAt-2], Argv: split(text[argvAt:]),
			Truncated: truncated, key: text}
	}
	return i
}

func (t *images) hold(i *Image) *Image {
	if i != nil {
		i.refs++
	}
	return i
}

func (t *images) release(i *Image) {
	if i == nil {
		return
	}
	if i.refs--; i.refs == 0 {
		delete(t.byKey, i.key)
		t.share.Book(i.uid, -i.Size())
	}
}

type exec struct {
	at    uint64
	image *Image
}

// maxExecs bounds the execs that a process remembers.
const maxExecs = 32

// run notes an exec of n: by time and once. Its children that were born after
// it inherited the new command.
func (g *Graph) run(n *node, e *Event) {
	i, found := slices.BinarySearchFunc(n.execs, e.Time, func(x exec, at uint64) int {
		return cmp.Compare(x.at, at)
	})
	if found {
		return
	}
	n.execs = slices.Insert(n.execs, i, exec{e.Time, g.images.intern(e.UID, e.Comm[:],
		e.Exe, e.Argv, e.ArgvTruncated)})
	if len(n.execs) > maxExecs {
		g.images.release(n.execs[1].image)
		n.execs = slices.Delete(n.execs, 1, 2)
	}
	for c := n.children.tail; c != nil && c.id.Start >= e.Time; c = c.links[siblings].prev {
		g.inherit(c)
	}
}

// imageAt returns what n ran at a time, nil if unknown.
func (n *node) imageAt(at uint64) *Image {
	for i := len(n.execs) - 1; i >= 0; i-- {
		if n.execs[i].at <= at {
			return n.execs[i].image
		}
	}
	return n.inherited
}

// unseen notes whether n had run for some time when it was entered. Then it may have
// run another command than its creator's: the creator may have asked for n without
// forking it.
func (g *Graph) unseen(n *node, unseen bool) {
	if n.unseen == unseen {
		return
	}
	n.unseen = unseen
	g.inherit(n)
}

// inherit gives n the command that its creator ran at the fork, and does the same for
// every descendant that was forked before its parent's first exec. In the order of
// events n has no children yet. What an adopted process ran before is unknown.
func (g *Graph) inherit(n *node) {
	queue := append(g.queue[:0], n)
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if n.hops > 0 || n.evidence == Adopted { // the creator in memory did not fork it
			continue
		}
		var img *Image
		if n.creator != nil && !n.unseen {
			img = n.creator.imageAt(n.id.Start)
		}
		if img == n.inherited {
			continue
		}
		g.images.hold(img)
		g.images.release(n.inherited)
		n.inherited = img
		g.mark(n)
		for c := n.children.head; c != nil; c = c.links[siblings].next {
			if len(n.execs) > 0 && c.id.Start >= n.execs[0].at {
				break
			}
			queue = append(queue, c)
		}
	}
	g.queue = queue
}

// HasCommand reports whether it is known what a process runs, or ran last.
func (g *Graph) HasCommand(id ID) bool {
	n := g.index.find(id)
	return n != nil && n.imageAt(^uint64(0)) != nil
}

func (n *node) commands() []Command {
	if n.inherited == nil && len(n.execs) == 0 {
		return nil
	}
	list := make([]Command, 0, 1+len(n.execs))
	if i := n.inherited; i != nil {
		list = append(list, i.command(n.id.Start))
	}
	for _, x := range n.execs {
		list = append(list, x.image.command(x.at))
	}
	return list
}

func (i *Image) command(at uint64) Command {
	return Command{Time: at, Comm: i.Comm, Exe: i.Exe, Argv: i.Argv, ArgvTruncated: i.Truncated}
}

func untilNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
