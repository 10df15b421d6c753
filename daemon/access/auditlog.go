//go:build linux

package access

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
)

const (
	defaultMaxBytes = 64 << 20
	defaultKeep     = 8
	// maxQueue bounds what waits for the disk. All records but receipts get half of it,
	// because any caller can cause refusals.
	maxQueue = 1024
	// maxWaiting bounds their reports, in bytes. Beyond it those of more records name no processes.
	maxWaiting = 16 << 20
	// maxTail is how much of an existing log is read to find its last number.
	maxTail = 4 << 20
)

type AuditOptions struct {
	MaxBytes int64 // of one file; default 64 MiB
	Keep     int   // older files; default 8
	// Redact hides the secrets of a command line. It is called from the writing
	// goroutine; without it no command line is written.
	Redact func(argv []string) []string
	// Failed is called, from the writing goroutine, when records begin to be lost, and
	// with nil when they are written again.
	Failed func(error)
}

// AuditLog is an audit log. Its methods may be called from any goroutine.
type AuditLog struct {
	path string
	o    AuditOptions

	mu    sync.Mutex
	queue []AuditRecord
	bytes int    // of their reports
	lost  uint64 // since the last record that was written
	seq   uint64
	err   error     // why records are lost now
	head  ChainHead // of the newest record that is on the disk

	wake   chan struct{}
	closed chan struct{}
	done   chan struct{}

	file *os.File // of the writing goroutine, nil: not open
	size int64
	last ChainHead // of the record that was written last

	Receipts map[string]*api.Report // that its end had when it was opened, by session, for those who open it
}

// OpenAudit begins to write to path, and makes its directory. The log works even with an
// error: it tries again.
func OpenAudit(path string, o AuditOptions) (*AuditLog, error) {
	l, err := begin(path, o)
	go l.run()
	return l, err
}

// begin makes a log that is not written yet.
func begin(path string, o AuditOptions) (*AuditLog, error) {
	o.MaxBytes, o.Keep = cmp.Or(o.MaxBytes, defaultMaxBytes), cmp.Or(o.Keep, defaultKeep)
	l := &AuditLog{path: path, o: o, Receipts: map[string]*api.Report{}, wake: make(chan struct{}, 1),
		closed: make(chan struct{}), done: make(chan struct{})}
	err := l.open()
	if err == nil {
		l.last = l.newest()
	}
	l.seq, l.head, l.err = l.last.Seq, l.last, err
	return l, err
}

// Err returns why records are lost now; nil: none is lost.
func (l *AuditLog) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Head names the newest record that is on the disk: none that a power failure could take back.
func (l *AuditLog) Head() ChainHead {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Add queues a record and gives it a number. It never blocks.
func (l *AuditLog) Add(r AuditRecord) {
	r.shorten()
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := maxQueue
	if !r.ends() {
		limit /= 2
	}
	if len(l.queue) >= limit {
		l.lost++
		return
	}
	if r.Report != nil {
		if size := enforcer.ReportSize(r.whole); l.bytes == 0 || l.bytes+size <= maxWaiting {
			l.bytes += size
		} else {
			r.lessen()
			r.whole = nil
			r.Report.Processes, r.Report.Delegated, r.Report.OutputHeldBy = []api.Outcome{}, nil, nil
		}
	}
	l.seq++
	r.Seq = api.U64(l.seq)
	l.queue = append(l.queue, r)
	system.Offer(l.wake, struct{}{})
}

// Close writes what is queued.
func (l *AuditLog) Close() error {
	close(l.closed)
	<-l.done
	return l.Err()
}

func (l *AuditLog) run() {
	defer close(l.done)
	for over := false; !over; {
		select {
		case <-l.wake:
		case <-l.closed:
			over = true
		}
		l.drain()
	}
	if l.file != nil {
		l.file.Close()
	}
}

func (l *AuditLog) drain() {
	l.mu.Lock()
	batch, lost := l.queue, l.lost
	if len(batch) == 0 {
		l.mu.Unlock()
		return
	}
	l.queue, l.bytes, l.lost = nil, 0, 0
	l.mu.Unlock()
	var err error
	written, sync := 0, false
	for i := range batch {
		batch[i].Lost = lost
		if e := l.write(&batch[i]); e != nil {
			err = e
			lost++
			continue
		}
		lost, written = 0, written+1
		sync = sync || batch[i].ends()
	}
	synced := false
	if sync {
		e := l.file.Sync()
		if synced = e == nil; !synced {
			err = fmt.Errorf("sync audit log: %w", e)
		}
	}
	l.mu.Lock()
	if synced {
		l.head = l.last
	}
	l.lost += lost
	before := l.err
	l.err = err
	l.mu.Unlock()
	if l.o.Failed != nil && (err == nil) != (before == nil) {
		l.o.Failed(err)
	}
}

// write appends one record, all of it or nothing.
func (l *AuditLog) write(r *AuditRecord) error {
	if l.file != nil && l.moved() {
		l.file.Close()
		l.file = nil
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size == 0 {
		r.Oldest = api.U64(read(l.older(l.o.Keep), 0, maxTail, func(ChainRecord) {}).First.Head.Seq)
	}
	if r.whole != nil && r.Target != nil {
		r.Receipt = r.whole.Digest(r.Target.UID)
	}
	r.redact(l.o.Redact)
	r.Prev = l.last.Hash
	b, err := json.Marshal(r)
	if err == nil && len(b) > maxRecord {
		r.lessen()
		b, err = json.Marshal(r)
	}
	if err != nil {
		return fmt.Errorf("encode audit record: %w", err)
	}
	b = append(b, '\n')
	if l.size > 0 && l.size+int64(len(b)) > l.o.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
		return l.write(r)
	}
	if _, err := l.file.Write(b); err != nil {
		err = fmt.Errorf("write audit log: %w", err)
		return errors.Join(err, l.file.Truncate(l.size))
	}
	l.size += int64(len(b))
	l.last = ChainHeadOf(uint64(r.Seq), b[:len(b)-1])
	return nil
}

// moved reports whether another program, for example logrotate, moved the file or cut it.
func (l *AuditLog) moved() bool {
	there, err := os.Lstat(l.path)
	if err != nil {
		return true
	}
	ours, err := l.file.Stat()
	return err != nil || !os.SameFile(there, ours) || ours.Size() < l.size
}

// open opens the file for appending. It must be only ours: in a directory where others
// can write, it could be a link to another file.
func (l *AuditLog) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o750); err != nil {
		return fmt.Errorf("make directory of audit log: %w", err)
	}
	f, err := system.TakeFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	if err := l.resume(f); err != nil {
		f.Close()
		return fmt.Errorf("open audit log %s: %w", l.path, err)
	}
	l.file = f
	return nil
}

// resume continues after the last record.
func (l *AuditLog) resume(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	l.size = info.Size()
	if l.size == 0 {
		return nil
	}
	// Half a line of a killed daemon gets its own line end.
	var end [1]byte
	if _, err := f.ReadAt(end[:], l.size-1); err != nil || end[0] == '\n' {
		return err
	}
	n, err := f.Write([]byte("\n"))
	l.size += int64(n)
	return err
}

// newest is the head of the last whole record; zero if there is none.
func (l *AuditLog) newest() ChainHead {
	name := l.path
	if l.size == 0 {
		name = l.older(1)
	}
	return read(name, max(l.size-maxTail, 0), math.MaxInt64, func(r ChainRecord) {
		if r.Report != nil {
			l.Receipts[r.Report.Session] = r.Report
		}
	}).Last.Head
}

// read reads some of a file; one that cannot be read has no records.
func read(name string, from, most int64, each func(ChainRecord)) (log Chain) {
	if f, err := system.OpenFile(name, os.O_RDONLY); err == nil {
		defer f.Close()
		_ = log.Read(name, io.NewSectionReader(f, from, most), each)
	}
	return log
}

func (l *AuditLog) older(n int) string { return fmt.Sprintf("%s.%d", l.path, n) }

// rotate renames the file to PATH.1, and the older ones to the next number, but for what is too many.
func (l *AuditLog) rotate() error {
	names := []string{l.path}
	for there := true; there; {
		names = append(names, l.older(len(names)))
		_, err := os.Lstat(names[len(names)-1])
		there = err == nil
	}
	for n := len(names) - 2; n >= 0; n-- {
		err := os.Rename(names[n], names[n+1])
		if n >= l.o.Keep {
			err = os.Remove(names[n+1])
		}
		if err != nil {
			return fmt.Errorf("rotate audit log: %w", err)
		}
	}
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	if openErr := l.open(); openErr != nil {
		return openErr
	}
	if err != nil {
		return fmt.Errorf("rotate audit log: %w", err)
	}
	return nil
}
