package procfs

import (
	"errors"
	"sync"
	"time"
)

// A read of procfs can wait for what the process itself waits for: the kernel holds a lock of the
// process while its exec closes files and while it changes its memory, and either may need an answer
// from a file server, such as FUSE, that never comes. Nothing ends such a wait but the server or our
// own death. So a read that takes too long is left to its goroutine.

const (
	// patience bounds a read. It is divided by the number of reads that were left, so that many of
	// them together delay a caller little more than one.
	patience      = 2 * time.Second
	leastPatience = 20 * time.Millisecond
	// maxLeft bounds the reads that were left and have not returned. Each occupies a thread.
	maxLeft = 512
)

// ErrStuck means that the kernel has not answered in time.
var ErrStuck = errors.New("the kernel does not answer")

// left are the reads that were left and have not returned, by key.
var left struct {
	sync.Mutex
	by map[string]int
	n  int
}

// Bounded returns what read returns, or ErrStuck if that takes longer than two seconds; read then continues
// in its goroutine. While a read of the same key does so, ErrStuck is returned at once.
func Bounded[T any](key string, read func() (T, error)) (T, error) {
	r := BoundedEach([]string{key}, func(int) (T, error) { return read() })[0]
	return r.Value, r.Err
}

// Result is what one read returned.
type Result[T any] struct {
	Value T
	Err   error
}

// BoundedEach is [Bounded] for one read after the other, by index. They share a goroutine for as long as
// the kernel answers: waiting for another goroutine can cost more than a read.
func BoundedEach[T any](keys []string, read func(i int) (T, error)) []Result[T] {
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
}

// readOn reads to the end, or up to and including a read that it leaves.
func readOn[T any](keys []string, read func(i int) (T, error)) []Result[T] {
	s := &series[T]{began: time.Now()}
	limit := limit()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, key := range keys {
			r := Result[T]{Err: ErrStuck}
			if !stuck(key) {
				r.Value, r.Err = read(i)
			}
			if !s.add(r) {
				count(key, -1)
				return
			}
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return s.results
		case <-timer.C:
		}
		rest := s.leave(limit, keys)
		if rest <= 0 {
			return append(s.results, Result[T]{Err: ErrStuck})
		}
		timer.Reset(rest)
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

// leave leaves the present read if it takes longer than limit; otherwise it returns how long that may take.
func (s *series[T]) leave(limit time.Duration, keys []string) (rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.results) == len(keys) {
		return limit // it is done
	}
	if rest = limit - time.Since(s.began); rest <= 0 {
		s.left = true
		count(keys[len(s.results)], 1)
	}
	return rest
}

// limit is how long a read may take now.
func limit() time.Duration {
	left.Lock()
	defer left.Unlock()
	return max(patience/time.Duration(1+left.n), leastPatience)
}

// stuck reports whether a read of key must not begin.
func stuck(key string) bool {
	left.Lock()
	defer left.Unlock()
	return left.by[key] > 0 || left.n >= maxLeft
}

func count(key string, n int) {
	left.Lock()
	defer left.Unlock()
	if left.by == nil {
		left.by = make(map[string]int)
	}
	left.n += n
	if left.by[key] += n; left.by[key] == 0 {
		delete(left.by, key)
	}
}
