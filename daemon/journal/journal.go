//go:build linux

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ErrUnusable means that the history cannot be read or written now. Degraded returns why.
var ErrUnusable = errors.New("the history is not available")

// The pause after a failure.
const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// Options of Open.
type Options struct {
	Boot     string        // boot_id of this boot
	MaxAge   time.Duration // of what is kept; 0: any
	MaxBytes int64         // of the file; default 1 GiB
	Now      func() time.Time
	// Changed is called when the history becomes unusable, with the reason, when it works
	// again, with nil, and when a file was set aside, with its new name.
	Changed func(err error, aside string)
}

// Stats are the journal's counters since Open, and its size.
type Stats struct {
	Batches  uint64 // written
	Failed   uint64 // batches that were not written
	Events   uint64 // written
	Sessions uint64 // rows of sessions written
	Damaged  uint64 // rows that could not be read back
	Pruned   uint64 // rows that retention removed: of sessions, processes, ports, blocks of events
	Aside    uint64 // files that were set aside
	Bytes    int64  // of the file, without what is free in it
}

// Journal is the history on disk. Write, Check and Close belong to one
// goroutine, everything else may be called from any; so may another Close.
type Journal struct {
	path string
	o    Options

	mu     sync.Mutex
	writer *sql.DB // nil: not usable
	reader *sql.DB
	err    error
	aside  string // the last file that was set aside, and why
	full   bool   // processes and events have no room
	stats  Stats

	opened  file // that writer and reader are about
	checked file // its structure was read: it may be written
	tried   time.Time
	pause   time.Duration
	pruned  time.Time
}

// Open begins to keep history in the file path, and makes its directory. The journal
// works even if that fails: it tries again. Before Check has read an existing file, nothing is
// written to it.
func Open(path string, o Options) *Journal {
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func(error, string) {}
	}
	j := &Journal{path: path, o: o}
	j.note(j.open(context.Background()))
	return j
}

// Path is where the history is.
func (j *Journal) Path() string { return j.path }

// Degraded is what users must know, empty if all is well.
func (j *Journal) Degraded() (why []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		why = append(why, "history is kept in memory only: "+j.err.Error())
	}
	if j.full {
		why = append(why, "processes and events are missing in the history: live sessions take all of daemon.history.max_size")
	}
	if j.aside != "" {
		why = append(why, "a new history was begun, the previous one was set aside: "+j.aside)
	}
	return why
}

// Stats returns the counters.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

// open opens the file, or another one in its place.
func (j *Journal) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err := j.connect(ctx)
	if err != nil && damaged(err) {
		err = j.replace(ctx, err)
	}
	return err
}

// replace sets the file aside and begins another one.
func (j *Journal) replace(ctx context.Context, why error) error {
	j.disconnect()
	to, err := setAside(j.path, why, j.o.Now())
	if err != nil {
		return errors.Join(why, err)
	}
	j.mu.Lock()
	j.aside = fmt.Sprintf("%s: %v", to, why)
	j.stats.Aside++
	j.mu.Unlock()
	j.o.Changed(why, to)
	err = j.connect(ctx)
	j.checked = j.opened // there is nothing in it
	return err
}

func (j *Journal) connect(ctx context.Context) (err error) {
	if err := take(j.path); err != nil {
		return err
	}
	st, err := os.Lstat(j.path)
	if err != nil {
		return err // it names the path
	}
	// An existing file is not written before it is known to be ours.
	r, err := connect(j.path, readers)
	if err != nil {
		return err
	}
	var w *sql.DB
	defer func() {
		if err == nil {
			return
		}
		r.Close()
		if w != nil {
			w.Close()
		}
	}()
	fresh := true
	if st.Size() > 0 {
		if fresh, err = known(ctx, r); err != nil {
			return err
		}
	}
	if w, err = connect(j.path, writer(fresh, j.o.MaxBytes)); err != nil {
		return err
	}
	if fresh {
		if err := makeSchema(ctx, w); err != nil {
			return err
		}
	}
	if j.opened, err = fileAt(j.path); err != nil {
		return err
	}
	j.mu.Lock()
	j.writer, j.reader = w, r
	j.mu.Unlock()
	return nil
}

func (j *Journal) disconnect() {
	j.mu.Lock()
	w, r := j.writer, j.reader
	j.writer, j.reader, j.opened = nil, nil, file{}
	j.mu.Unlock()
	if r != nil {
		r.Close()
		w.Close()
	}
}

// note notes the result of a try, and reports it if it changed.
func (j *Journal) note(err error) {
	j.mu.Lock()
	before := j.err
	j.err = err
	j.mu.Unlock()
	j.tried = j.o.Now()
	if err == nil {
		j.pause = 0
	} else {
		j.pause = min(max(2*j.pause, firstPause), maxPause)
	}
	if (err == nil) != (before == nil) {
		j.o.Changed(err, "")
	}
}

// Due reports whether a Write may be tried: not for a while after a failure.
func (j *Journal) Due() bool {
	return j.pause == 0 || j.o.Now().Sub(j.tried) >= j.pause || j.o.Now().Before(j.tried)
}

// Check reads the file's structure, all of it, once; a damaged file is set
// aside. It may take seconds for each GiB, and is done before the first Write.
func (j *Journal) Check(ctx context.Context) error {
	w := j.writing()
	switch {
	case w == nil:
		return ErrUnusable
	case j.checked == j.opened:
		return nil
	}
	err := check(ctx, w)
	if err != nil && damaged(err) {
		err = j.replace(ctx, err)
	}
	if err == nil {
		j.checked = j.opened
	}
	return err
}

// Close ends the writing. What Write accepted is on disk.
func (j *Journal) Close() {
	if w := j.writing(); w != nil && j.checked == j.opened {
		// The log is emptied into the file; if it cannot be, it stays and is
		// read at the next open.
		_, _ = w.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	j.disconnect()
}

// size gives the bytes in use in the file.
func size(ctx context.Context, db *sql.DB) (int64, error) {
	var pages, free int64
	if err := db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return 0, fmt.Errorf("read size: %w", err)
	}
	if err := db.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
		return 0, fmt.Errorf("read size: %w", err)
	}
	return (pages - free) * pageSize, nil
}

// writing gives the writer's connection, nil if the journal is not usable.
func (j *Journal) writing() *sql.DB {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writer
}

// db gives the readers' connections.
func (j *Journal) db() (*sql.DB, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reader == nil {
		return nil, ErrUnusable
	}
	return j.reader, nil
}

// unread counts a row that could not be read back.
func (j *Journal) unread() {
	j.mu.Lock()
	j.stats.Damaged++
	j.mu.Unlock()
}

// moved reports whether the file was removed, or replaced by another one.
func (j *Journal) moved() bool {
	now, err := fileAt(j.path)
	return err != nil || now != j.opened
}
