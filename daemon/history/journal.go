//go:build linux

package history

import (
	"cmp"
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

type JournalOptions struct {
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
	Pruned   uint64 // rows that retention removed: of sessions, processes, blocks of events
	Aside    uint64 // files that were set aside
	Bytes    int64  // of the file, without what is free in it
}

// Journal is the history on disk. Write, Check and Close belong to one
// goroutine, everything else may be called from any; so may another Close.
type Journal struct {
	path string
	o    JournalOptions

	mu     sync.Mutex
	writer *sql.DB // nil: not usable
	reader *sql.DB
	err    error
	aside  string // the last file that was set aside, and why
	full   bool   // processes and events have no room
	stats  Stats

	opened  os.FileInfo // the file that writer and reader are about, or were
	checked bool        // its structure was read: it may be written
	tried   time.Time
	pause   time.Duration
	pruned  time.Time
}

// OpenJournal begins to keep history in the file path, and makes its directory. The journal
// works even if that fails: it tries again. Before Check has read an existing file, nothing is
// written to it.
func OpenJournal(path string, o JournalOptions) *Journal {
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	if o.Changed == nil {
		o.Changed = func(error, string) {}
	}
	j := &Journal{path: path, o: o}
	j.note(j.open(context.Background()))
	return j
}

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

func (j *Journal) Stats() (st Stats) {
	j.locked(func() { st = j.stats })
	return st
}

// open opens the file, or another one in its place.
func (j *Journal) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return j.replace(ctx, j.connect(ctx))
}

// replace sets the file aside and begins another one if why means that it cannot be used. It returns what is wrong then.
func (j *Journal) replace(ctx context.Context, why error) error {
	kind := kindOf(why)
	if kind == "" {
		return why
	}
	j.disconnect()
	to, err := setAside(j.path, kind, j.o.Now())
	if err != nil {
		return errors.Join(why, err)
	}
	j.locked(func() { j.aside, j.stats.Aside = fmt.Sprintf("%s: %v", to, why), j.stats.Aside+1 })
	j.o.Changed(why, to)
	err = j.connect(ctx)
	j.checked = err == nil // there is nothing in it
	return err
}

func (j *Journal) connect(ctx context.Context) error {
	if err := take(j.path); err != nil {
		return err
	}
	st, err := os.Lstat(j.path)
	if err != nil {
		return err // it names the path
	}
	// An existing file is not written before it is known to be ours.
	r, err := connect(j.path, 4, "deferred", "query_only(1)")
	if err != nil {
		return err
	}
	var w *sql.DB
	fresh := true
	if st.Size() > 0 {
		fresh, err = known(ctx, r)
	}
	if err == nil {
		w, err = writer(j.path, fresh, j.o.MaxBytes)
	}
	if err == nil && fresh {
		err = makeSchema(ctx, w)
	}
	if err != nil {
		closeBoth(r, w)
		return err
	}
	j.checked = j.checked && os.SameFile(j.opened, st)
	j.opened = st
	j.locked(func() { j.writer, j.reader = w, r })
	return nil
}

func (j *Journal) disconnect() {
	var w, r *sql.DB
	j.locked(func() { w, r, j.writer, j.reader = j.writer, j.reader, nil, nil })
	closeBoth(r, w)
}

func closeBoth(all ...*sql.DB) {
	for _, db := range all {
		if db != nil {
			db.Close()
		}
	}
}

func (j *Journal) locked(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

// note notes the result of a try, and reports it if it changed.
func (j *Journal) note(err error) {
	before := j.err // only this goroutine writes it
	j.locked(func() { j.err = err })
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
	case j.checked:
		return nil
	}
	err := j.replace(ctx, check(ctx, w))
	j.checked = err == nil
	return err
}

// Close ends the writing. What Write accepted is on disk.
func (j *Journal) Close() {
	if w := j.writing(); w != nil && j.checked {
		// The log is emptied into the file; if it cannot be, it stays and is
		// read at the next open.
		_, _ = w.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	j.disconnect()
}

func size(ctx context.Context, db *sql.DB) (bytes int64, err error) {
	const q = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
	if err = db.QueryRowContext(ctx, q).Scan(&bytes); err != nil {
		err = fmt.Errorf("read size: %w", err)
	}
	return bytes, err
}

// writing gives the writer's connection, nil if the journal is not usable.
func (j *Journal) writing() (w *sql.DB) {
	j.locked(func() { w = j.writer })
	return w
}

// moved reports whether the file was removed, or replaced by another one.
func (j *Journal) moved() bool {
	now, err := os.Lstat(j.path)
	return err != nil || !os.SameFile(now, j.opened)
}
