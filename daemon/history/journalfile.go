//go:build linux

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	pageSize = 4096
	// maxAside bounds the files that were set aside; the oldest are deleted.
	maxAside = 3
	// maxWAL bounds the write-ahead log between two checkpoints.
	maxWAL = 8 << 20
	// openTimeout bounds the time for opening, without the reading of the file.
	openTimeout = 10 * time.Second
)

// parts are the files that SQLite makes of one database.
var parts = []string{"", "-wal", "-shm"}

// take makes the directory and the file ours: 0700 and 0600, regular, of our uid, with
// one name. In a directory where others can write, the file could be a link to another.
func take(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("stat %s: %w", dir, unix.ENOTDIR)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d", dir, st.Uid)
	}
	// SQLite opens files by name, again and again.
	if err := lasting(filepath.Dir(dir)); err != nil {
		return err
	}
	if st.Mode&0o777 != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("set mode of %s: %w", dir, err)
		}
	}
	for _, part := range parts {
		flags := os.O_RDWR
		if part == "" {
			flags |= os.O_CREATE
		}
		f, err := system.TakeFile(path+part, flags)
		if errors.Is(err, os.ErrNotExist) && part != "" {
			continue
		}
		if err != nil {
			return err // it names the path
		}
		f.Close()
	}
	return nil
}

// lasting refuses a directory in which another user could replace ours.
func lasting(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d", dir, st.Uid)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("other users may write to %s, mode %04o", dir, st.Mode&0o7777)
	}
	return nil
}

// connect prepares to open the file with at most conns connections; the first use opens it. txlock is how transactions begin.
func connect(path string, conns int, txlock string, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"_txlock": {txlock}, "_pragma": append([]string{
		"busy_timeout(2000)", "trusted_schema(0)", "cell_size_check(1)", "mmap_size(0)",
		"cache_size(-2048)", "temp_store(2)",
	}, pragmas...)}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	db.SetMaxOpenConns(conns)
	return db, nil
}

// writer is one connection. The layout of pages is set for a new file only.
func writer(path string, fresh bool, maxBytes int64) (*sql.DB, error) {
	var layout []string
	if fresh {
		layout = []string{fmt.Sprintf("page_size(%d)", pageSize), "auto_vacuum(2)"}
	}
	return connect(path, 1, "immediate", append(layout, "journal_mode(WAL)", "synchronous(NORMAL)",
		fmt.Sprintf("journal_size_limit(%d)", maxWAL), fmt.Sprintf("max_page_count(%d)",
			maxBytes/pageSize))...)
}

// spoiled is why a file is set aside, under a name with its kind.
type spoiled struct{ kind, why string }

func (s *spoiled) Error() string { return s.why }

// The reasons.
var (
	errNotOurs = &spoiled{"foreign", "it is not a history of lineage"}
	errVersion = &spoiled{"version", "another version of lineage wrote it"}
	errDamaged = &spoiled{"damaged", "it is damaged"}
)

// kindOf is the kind of an error that means that the file cannot be used, even with enough disk
// and permissions; of any other it is empty.
func kindOf(err error) string {
	if s, ok := errors.AsType[*spoiled](err); ok {
		return s.kind
	}
	switch code(err) {
	case sqlite3.SQLITE_NOTADB:
		return errNotOurs.kind
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT:
		return errDamaged.kind
	}
	return ""
}

// doubtful reports whether err means neither that the file is damaged nor that disk,
// permissions or time were short: our queries are fixed, so the file may not be what it
// seems.
func doubtful(err error) bool {
	return !slices.Contains([]int{
		0, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH,
	}, code(err))
}

// code is SQLite's primary result code, 0 for any other error.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// check reads all of the file's structure.
func check(ctx context.Context, db *sql.DB) error {
	var word string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&word); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if word != "ok" {
		return fmt.Errorf("%w: %.200s", errDamaged, strings.ReplaceAll(word, "\n", " "))
	}
	return nil
}

// setAside renames a file of that kind and returns its new name, which shows the kind and the time.
func setAside(path, kind string, now time.Time) (string, error) {
	to := fmt.Sprintf("%s.%s-%s", path, kind, now.UTC().Format("20060102T150405.000000000Z"))
	for _, part := range parts {
		if err := os.Rename(path+part, to+part); err != nil && (part == "" || !errors.Is(err, os.ErrNotExist)) {
			return "", fmt.Errorf("set aside: %w", err)
		}
	}
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	var old []string
	for _, err := range []*spoiled{errDamaged, errVersion, errNotOurs} {
		names, _ := filepath.Glob(escape.Replace(path) + "." + err.kind + "-*Z")
		old = append(old, names...)
	}
	when := func(name string) string { return name[strings.LastIndexByte(name, '-'):] }
	slices.SortFunc(old, func(a, b string) int { return strings.Compare(when(a), when(b)) })
	for _, name := range old[:max(0, len(old)-maxAside)] {
		for _, part := range parts {
			os.Remove(name + part)
		}
	}
	return to, nil
}
