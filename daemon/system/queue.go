//go:build linux

package system

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	queueLines = 1024        // lines that wait to be written at most
	flushTime  = time.Second // at most, at the end
)

// queue passes lines to a writer that may block, such as a terminal or an unread pipe.
// Logging never blocks; lines that do not fit are counted.
type queue struct {
	to         io.Writer
	lines      chan []byte
	dropped    atomic.Uint64
	stop, done chan struct{}
}

func newQueue(to io.Writer) *queue {
	q := &queue{to: to, lines: make(chan []byte, queueLines), stop: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return q
}

func (q *queue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.dropped.Add(1)
	}
	return len(line), nil
}

func (q *queue) run() {
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

// write writes a line, and how many were lost before it. Its errors cannot be reported.
func (q *queue) write(line []byte) {
	_, _ = q.to.Write(line)
	if n := q.dropped.Swap(0); n > 0 {
		log := zerolog.New(q.to).With().Timestamp().Logger()
		log.Warn().Uint64(KeyDropped, n).Msg("log lines dropped: they were not read fast enough")
	}
}

// close writes the lines that wait, for flushTime at most.
func (q *queue) close() {
	close(q.stop)
	select {
	case <-q.done:
	case <-time.After(flushTime):
	}
}
