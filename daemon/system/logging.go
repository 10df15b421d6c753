//go:build linux

package system

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/journald"
	"golang.org/x/sys/unix"
)

// OpenLog returns the log and the function that closes it. Lines of JSON go to the file at
// path, if there is one, else to stderr. If systemd's journal reads stderr, they go to
// the journal with their fields; on a terminal they are text for users. Messages are
// constants: each is a kind of its own, see limiter. No field ever contains an argv.
func OpenLog(path string, stderr *os.File, env func(string) string) (zerolog.Logger, func(), error) {
	w, closeFile := writer(stderr, env), func() {}
	if path != "" {
		l, err := openFile(path)
		if err != nil {
			return zerolog.Nop(), nil, err
		}
		w, closeFile = l, l.close
	}
	q := newQueue(w)
	unlimited := zerolog.New(q).With().Timestamp().Logger()
	d := newLimiter(unlimited)
	return unlimited.Hook(d), func() { d.flush(); q.close(); closeFile() }, nil
}

// writer is where the lines go if there is no file.
func writer(stderr *os.File, env func(string) string) io.Writer {
	switch {
	case journalReads(stderr, env("JOURNAL_STREAM")):
		return &journal{to: journald.NewJournalDWriter(), stderr: stderr}
	case isTerminal(stderr):
		return zerolog.ConsoleWriter{Out: stderr, NoColor: env("NO_COLOR") != "", TimeFormat: "15:04:05"}
	}
	return stderr
}

// journalReads reports whether the journal reads f: stream has the device and inode of
// the file that the journal reads. A program with another stderr may have inherited the
// variable.
func journalReads(f *os.File, stream string) bool {
	var st unix.Stat_t
	if stream == "" || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// journal writes in the journal's own protocol. A line that it refuses goes to stderr, which the journal reads as well.
type journal struct{ to, stderr io.Writer }

func (j *journal) Write(line []byte) (int, error) {
	if _, err := j.to.Write(line); err != nil {
		return j.stderr.Write(line)
	}
	return len(line), nil
}

// Failure begins a line about an error; without one nothing is logged.
func Failure(l zerolog.Logger, err error) *zerolog.Event {
	if err == nil {
		return nil
	}
	return l.Error().Err(err)
}

// HTTPLog is a log for net/http: all of its lines are one kind of message.
func HTTPLog(l zerolog.Logger) *log.Logger { return log.New(httpWriter{l}, "", 0) }

type httpWriter struct{ log zerolog.Logger }

func (w httpWriter) Write(p []byte) (int, error) {
	w.log.Warn().Bytes(KeyWhy, p).Msg("connection failed")
	return len(p), nil
}

// maxFile is the size limit of the log file of an ephemeral daemon, in bytes.
const maxFile = 1 << 20

// file is a log file that is emptied when it is full.
type file struct {
	mu   sync.Mutex
	file *os.File
	size int64
}

func openFile(path string) (*file, error) {
	// A FIFO there, which another user may have made, must not block the daemon.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &file{file: f, size: info.Size()}, nil
}

func (l *file) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxFile {
		if err := l.file.Truncate(0); err != nil {
			return 0, err
		}
		l.size = 0
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *file) close() { l.file.Close() }

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
	q := &queue{to: to, lines: make(chan []byte, queueLines),
		stop: make(chan struct{}), done: make(chan struct{})}
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
