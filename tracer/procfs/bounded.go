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
	patience      = time.Second
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

// Bounded returns what read returns, or ErrStuck if that takes longer than a second; read then continues
// in its goroutine. While a read of the same key does so, ErrStuck is returned at once.
func Bounded[T any](key string, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	limit, ok := limitOf(key)
	if !ok {
		return none, ErrStuck
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	select {
	case r := <-done:
		return r.value, r.err
	default:
	}
	count(key, 1)
	go func() {
		<-done
		count(key, -1)
	}()
	return none, ErrStuck
}

// limitOf returns how long a read of key may take; false: it must not begin.
func limitOf(key string) (time.Duration, bool) {
	left.Lock()
	defer left.Unlock()
	return max(patience/time.Duration(1+left.n), leastPatience), left.by[key] == 0 && left.n < maxLeft
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
