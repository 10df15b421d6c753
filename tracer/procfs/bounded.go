//go:build linux

package procfs

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A read of procfs can wait for what the process itself waits for: the kernel holds a lock of the
// process while its exec closes files and while it changes its memory, and either may need an answer
// from a file server, such as FUSE, that never comes. Nothing ends such a wait but the server or our
// own death. So a read that takes too long is left to its goroutine.

const (
	// patience bounds a read. It is divided by the number of reads of the same uid that were left, so that many
	// of them together do not delay a caller for long.
	patience      = 2 * time.Second
	leastPatience = 20 * time.Millisecond
)

// Bounds of the reads that were left and have not returned. Each occupies a thread. Any user can make processes
// that are not readable, so a uid has a share, and what other uids than root have together leaves
// a part to root.
const (
	maxLeft    = 512
	usersLeft  = 384
	maxUIDLeft = 64
)

// ErrStuck means that the kernel has not answered in time, or that it does not answer for too many processes of the
// same user.
var ErrStuck = errors.New("the kernel does not answer")

// Key names what is read. Of one key, at most one read waits, and it counts for a uid.
type Key struct {
	path  string
	uid   uint32
	known bool // uid; otherwise it is the owner of path
}

// KeyOf is the key of a process, by its directory in procfs.
func KeyOf(dir string) Key { return Key{path: dir} }

// UserKey is the key of a file that a user may have made.
func UserKey(path string, uid uint32) Key { return Key{path: path, uid: uid, known: true} }

// unknown counts for processes that are gone.
const unknown = ^uint32(0)

// owner is the uid that the key counts for. The owner of a process's directory is its effective uid, for processes
// that are not dumpable, too. No lock of the process is taken.
func (k Key) owner() uint32 {
	if k.known {
		return k.uid
	}
	var st unix.Stat_t
	if unix.Stat(k.path, &st) != nil {
		return unknown
	}
	return st.Uid
}

// left are the reads that were left and have not returned.
var left struct {
	sync.Mutex
	by  map[string]waiting // by the path of the key
	uid map[uint32]int
	n   int
}

type waiting struct {
	n   int
	uid uint32
}

// Bounded returns what read returns, or ErrStuck if that takes longer than two seconds; read then continues
// in its goroutine. While a read of the same key does so, ErrStuck is returned at once. If read panics in
// time, Bounded does.
func Bounded[T any](key Key, read func() (T, error)) (T, error) {
	r := BoundedEach([]Key{key}, func(int) (T, error) { return read() })[0]
	return r.Value, r.Err
}

type Result[T any] struct {
	Value T
	Err   error
}

// BoundedEach is [Bounded] for one read after the other, by index. They share a goroutine for as long as
// the kernel answers: waiting for another goroutine can cost more than a read.
func BoundedEach[T any](keys []Key, read func(i int) (T, error)) []Result[T] {
	all := make([]Result[T], 0, len(keys))
	for len(all) < len(keys) {
		from := len(all)
		all = append(all, readOn(keys[from:], func(i int) (T, error) { return read(from + i) })...)
	}
	return all
}

// series is a goroutine that reads.
type series[T any] struct {
	mu      sync.Mutex
	results []Result[T]
	began   time.Time // the present read
	left    bool
	panic   *Panic // of the last read
}

// readOn reads to the end, or up to and including a read that it leaves.
func readOn[T any](keys []Key, read func(i int) (T, error)) []Result[T] {
	s := &series[T]{began: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, key := range keys {
			r := Result[T]{Err: ErrStuck}
			if !stuck(key) {
				s.panic = CatchPanic(func() { r.Value, r.Err = read(i) })
			}
			if !s.add(r) {
				returned(key)
				return
			}
			if s.panic != nil {
				return
			}
		}
	}()
	timer := time.NewTimer(least())
	defer timer.Stop()
	for {
		select {
		case <-done:
			if s.panic != nil {
				panic(s.panic)
			}
			return s.results
		case <-timer.C:
		}
		rest := s.leave(keys)
		if rest <= 0 {
			return append(s.results, Result[T]{Err: ErrStuck})
		}
		timer.Reset(min(rest, least()))
	}
}

// add keeps a result; false: the read was left.
func (s *series[T]) add(r Result[T]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return false
	}
	s.results = append(s.results, r)
	s.began = time.Now()
	return true
}

// leave leaves the present read if it takes too long; otherwise it returns how much longer that may take.
func (s *series[T]) leave(keys []Key) (rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.results) == len(keys) {
		return patience // it is done
	}
	key := keys[len(s.results)]
	uid := key.owner()
	left.Lock()
	defer left.Unlock()
	if rest = share(left.uid[uid]) - time.Since(s.began); rest <= 0 {
		s.left = true
		count(key, uid, 1)
	}
	return rest
}

// least is the shortest time that a read may take now, whatever its key is.
func least() time.Duration {
	left.Lock()
	defer left.Unlock()
	return share(left.n)
}

// share is how long a read may take beside n that were left.
func share(n int) time.Duration { return max(patience/time.Duration(1+n), leastPatience) }

// stuck reports whether a read of key must not begin.
func stuck(key Key) bool {
	left.Lock()
	none, same := left.n == 0, left.by[key.path].n > 0
	left.Unlock()
	if none || same {
		return same
	}
	uid := key.owner()
	left.Lock()
	defer left.Unlock()
	if left.n >= maxLeft || uid == 0 {
		return left.n >= maxLeft
	}
	return left.uid[uid] >= maxUIDLeft || left.n-left.uid[0] >= usersLeft
}

func returned(key Key) {
	left.Lock()
	defer left.Unlock()
	count(key, left.by[key.path].uid, -1)
}

// count counts reads that were left. The caller holds the lock.
func count(key Key, uid uint32, n int) {
	if left.by == nil {
		left.by, left.uid = make(map[string]waiting), make(map[uint32]int)
	}
	w := left.by[key.path]
	if w.n == 0 {
		w.uid = uid
	}
	w.n += n
	left.by[key.path] = w
	left.n += n
	left.uid[w.uid] += n
	if w.n == 0 {
		delete(left.by, key.path)
	}
	if left.uid[w.uid] == 0 {
		delete(left.uid, w.uid)
	}
}
