//go:build linux

package daemon

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	logQueued = 1024        // lines that may wait to be written
	logFlush  = time.Second // at the end
)

// logQueue hands lines to a writer that may block: a terminal or a pipe that
// nobody reads. Who logs never waits, and the lines for which there is no room
// are counted.
type logQueue struct {
	to         io.Writer
	lines      chan []byte
	dropped    atomic.Uint64
	stop, done chan struct{}
}

func newLogQueue(to io.Writer) *logQueue {
	q := &logQueue{to: to, lines: make(chan []byte, logQueued), stop: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return q
}

func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.dropped.Add(1)
	}
	return len(line), nil
}

func (q *logQueue) run() {
	defer close(q.done)
	for {
		select {
		case line := <-q.lines:
			q.write(line)
			continue
		default:
		}
		select {
		case line := <-q.lines:
			q.write(line)
		case <-q.stop:
			return
		}
	}
}

// write writes a line, and how many were lost before it. If that fails there is
// nobody to tell.
func (q *logQueue) write(line []byte) {
	_, _ = q.to.Write(line)
	if n := q.dropped.Swap(0); n > 0 {
		log := zerolog.New(q.to).With().Timestamp().Logger()
		log.Warn().Uint64(keyDropped, n).Msg("log lines dropped, as nobody read them")
	}
}

// close writes what waits, if that does not take long.
func (q *logQueue) close() {
	close(q.stop)
	select {
	case <-q.done:
	case <-time.After(logFlush):
	}
}
