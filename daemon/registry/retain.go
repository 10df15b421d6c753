package registry

import (
	"slices"

	"github.com/lineage-ebpf/lineage/lineage/memory"
)

// retained is what is kept, oldest first, and what users take who will add to it. What has to go is of
// the user who has the most, so that no user makes those of others go. It has a single owner.
type retained[T comparable] struct {
	most   int
	memory *memory.Share
	forget func(T)
	all    []T
	of     map[T]mine
}

// mine is whose an entry is, and its size in bytes.
type mine struct {
	uid  uint32
	size int
}

// newRetained keeps at most that many entries, and that number of bytes. Each that has to go is forgotten once it is off
// the list.
func newRetained[T comparable](most, bytes int, forget func(T)) *retained[T] {
	return &retained[T]{most: most, memory: memory.NewShare(bytes), forget: forget, of: make(map[T]mine)}
}

// All are those that are kept, oldest first. The slice is valid until the next call.
func (l *retained[T]) All() []T { return l.all }

// Take books memory for what a user will add. The user's own entries make room for it. False:
// they are not enough.
func (l *retained[T]) Take(uid uint32, bytes int) bool {
	for !l.memory.Take(uid, bytes) {
		at := slices.IndexFunc(l.all, func(x T) bool { return l.of[x].uid == uid })
		if at < 0 {
			return false
		}
		l.remove(at)
	}
	return true
}

// Book books memory that is taken already; less than 0: it is free again.
func (l *retained[T]) Book(uid uint32, bytes int) { l.memory.Book(uid, bytes) }

// Add keeps x, whose memory is not booked yet.
func (l *retained[T]) Add(x T, uid uint32, size int) {
	l.memory.Book(uid, size)
	for len(l.all) >= l.most {
		count := map[uint32]int{uid: 1}
		for _, x := range l.all {
			count[l.of[x].uid]++
		}
		l.remove(l.first(func(uid uint32) int { return count[uid] }))
	}
	for l.memory.Over() && len(l.all) > 0 {
		at := l.first(l.memory.Of)
		if !l.memory.Exceeds(l.of[l.all[at]].uid) {
			break // others have taken it, and will not add it
		}
		l.remove(at)
	}
	l.all = append(l.all, x)
	l.of[x] = mine{uid, size}
}

// first is the oldest entry of the user who has the most.
func (l *retained[T]) first(has func(uid uint32) int) (at int) {
	for i, x := range l.all {
		if has(l.of[x].uid) > has(l.of[l.all[at]].uid) {
			at = i
		}
	}
	return at
}

func (l *retained[T]) remove(at int) {
	x := l.all[at]
	l.all = slices.Delete(l.all, at, at+1)
	l.memory.Book(l.of[x].uid, -l.of[x].size)
	delete(l.of, x)
	l.forget(x)
}
