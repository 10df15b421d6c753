//go:build linux

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

const readTimeout = 10 * time.Second

// rows runs a query of the readers and passes each of its rows to scan; a damaged one is counted.
func (j *Journal) rows(ctx context.Context, q string, args []any, scan func(*sql.Rows) error) error {
	var db *sql.DB
	if j.locked(func() { db = j.reader }); db == nil {
		return ErrUnusable
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := each(ctx, db, q, args, func(rows *sql.Rows) error {
		err := scan(rows)
		if errors.Is(err, errDamaged) {
			j.locked(func() { j.stats.Damaged++ })
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

func (j *Journal) sessions(ctx context.Context, where string, args ...any) ([]Session, error) {
	return read[Session](ctx, j, sessionTable, where, args...)
}

// Live returns the sessions that had not ended when they were last written, of every
// boot.
func (j *Journal) Live(ctx context.Context) ([]Session, error) {
	return j.sessions(ctx, "ended IS NULL ORDER BY started LIMIT 65536")
}

type Query struct {
	UID          *uint32 // of this user; nil: of all
	Since, Until time.Time
	Name         string
	Before       Place // only sessions that come after it
	Limit        int
}

// Place is a place in the order of the ended sessions, the newest first.
type Place struct {
	Ended int64 // ns; 0: the beginning
	ID    tracer.SessionID
}

func (s *Session) Place() Place { return Place{s.Ended.UnixNano(), s.ID} }

func (p Place) Behind(q Place) bool {
	return q.Ended == 0 || p.Ended < q.Ended || p.Ended == q.Ended && p.ID < q.ID
}

// Ended lists ended sessions, the newest first.
func (j *Journal) Ended(ctx context.Context, q Query) ([]Session, error) {
	w := condition{text: "ended IS NOT NULL"}
	w.and(q.UID != nil, "uid = ?", q.UID)
	w.and(!q.Since.IsZero(), "ended >= ?", q.Since.UnixNano())
	w.and(!q.Until.IsZero(), "ended <= ?", q.Until.UnixNano())
	w.and(q.Name != "", "name = ?", q.Name)
	w.and(q.Before.Ended != 0, "(ended, id) < (?, ?)", q.Before.Ended, q.Before.ID)
	return j.sessions(ctx, w.text+" ORDER BY ended DESC, id DESC LIMIT ?", append(w.args, q.Limit)...)
}

// condition is that of a query, with the values of its placeholders.
type condition struct {
	text string
	args []any
}

// and adds a clause, if it is wanted.
func (w *condition) and(wanted bool, clause string, values ...any) {
	if wanted {
		w.text += " AND " + clause
		w.args = append(w.args, values...)
	}
}

// After is the session whose end was written first after that of a number, with its number; nil: this was the last one.
// Those that are damaged, or were removed, are left out.
func (j *Journal) After(ctx context.Context, number int64) (*Session, int64, error) {
	for last := number; ; {
		before := last
		var boot string
		var id tracer.SessionID
		err := j.rows(ctx, "SELECT number, boot, id FROM ends WHERE number > ? ORDER BY number LIMIT 1", []any{last}, func(rows *sql.Rows) error {
			return rows.Scan(&last, &boot, &id)
		})
		if err != nil || last == before {
			return nil, number, err
		}
		if s, err := j.Session(ctx, boot, id); s != nil || err != nil {
			return s, last, err
		}
	}
}

// Newest is the number of the end that was written last; 0: not one was.
func (j *Journal) Newest(ctx context.Context) (number int64, err error) {
	err = j.rows(ctx, "SELECT coalesce(max(number), 0) FROM ends", nil,
		func(rows *sql.Rows) error { return rows.Scan(&number) })
	return number, err
}

// Find returns the sessions that a word may name: by id, else by name, the last that
// ended first. There may be many of one name; it returns the last 256.
func (j *Journal) Find(ctx context.Context, word string) ([]Session, error) {
	all, err := j.sessions(ctx, "word = ? ORDER BY ended DESC LIMIT 16", word)
	if err != nil || len(all) > 0 {
		return all, err
	}
	return j.sessions(ctx, "name = ? AND name != '' ORDER BY ended DESC LIMIT 256", word)
}

func (j *Journal) Session(ctx context.Context, boot string, id tracer.SessionID) (*Session, error) {
	return one(j.sessions(ctx, "boot = ? AND id = ?", boot, id))
}

// one is the first row, if there is any.
func one[T any](all []T, err error) (*T, error) {
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// First gives the time of the oldest event, zero if there is none.
func (j *Journal) First(ctx context.Context) (time.Time, error) {
	return j.time(ctx, "SELECT began FROM events ORDER BY id LIMIT 1")
}

// Last gives the time of the last event of a boot, zero if there is none.
func (j *Journal) Last(ctx context.Context, boot string) (time.Time, error) {
	return j.time(ctx, "SELECT max(ended) FROM events WHERE boot = ?", boot)
}

// time is the answer to a query for one time.
func (j *Journal) time(ctx context.Context, q string, args ...any) (at time.Time, err error) {
	err = j.rows(ctx, q, args, func(rows *sql.Rows) error {
		if rows.Scan(wall{&at}) != nil {
			return errDamaged
		}
		return nil
	})
	return at, err
}

func (j *Journal) Nested(ctx context.Context, boot string, parent tracer.SessionID) ([]Session, error) {
	return j.sessions(ctx, "boot = ? AND parent = ? ORDER BY started LIMIT 1024", boot, parent)
}

// Processes gives the processes of a session in the order of their start.
func (j *Journal) Processes(ctx context.Context, boot string, session tracer.SessionID) ([]Process, error) {
	return read[Process](ctx, j, processTable, "boot = ? AND session = ? ORDER BY start LIMIT 131072",
		boot, session)
}

// Process returns a process of a boot, with start 0 the youngest that had the PID; nil
// if there is none.
func (j *Journal) Process(ctx context.Context, boot string, pid uint32, start uint64) (*Process, error) {
	const q = "boot = ?1 AND pid = ?2 AND ?3 IN (0, start) ORDER BY start DESC LIMIT 1"
	return one(read[Process](ctx, j, processTable, q, boot, pid, int64(start)))
}

type Block struct {
	ID      int64
	Boot    string
	Zero    time.Time // wall time at boottime 0
	Records []Record

	first, last  uint64 // the numbers of the first and the last one
	began, ended int64  // wall time of the earliest and the latest one, in ns
	data         []byte // Records, encoded
}

var eventTable = table{"events", "id, boot, zero, first, last, began, ended, data"}

func (b *Block) fields() []any {
	return []any{&b.ID, &b.Boot, wall{&b.Zero}, &b.first, &b.last, &b.began, &b.ended, &b.data}
}

// scan reads a row. One that is damaged has no records.
func (b *Block) scan(rows *sql.Rows) error {
	err := scan(rows, b.fields())
	if err != nil {
		return err
	}
	if b.Records, err = decode(b.data); err != nil {
		return errDamaged
	}
	b.data = nil
	return nil
}

// Next returns the first block after the one with the id after that contains something
// at or after since; with a boot, something of that boot numbered from or higher. It is
// nil if there is none. Damaged blocks are left out and counted.
func (j *Journal) Next(ctx context.Context, after int64, since time.Time,
	boot string, from uint64) (*Block, error) {
	w := condition{"id > ?", []any{after}}
	w.and(!since.IsZero(), "ended >= ?", since.UnixNano())
	w.and(boot != "", "boot = ? AND last >= ?", boot, int64(from))
	for {
		var b *Block
		err := j.rows(ctx, "SELECT "+eventTable.columns+", sum FROM events WHERE "+
			w.text+" ORDER BY id LIMIT 1", w.args,
			func(rows *sql.Rows) error {
				b = new(Block)
				return b.scan(rows)
			})
		switch {
		case err != nil || b == nil:
			return nil, err
		case b.Records != nil:
			return b, nil
		case b.ID <= after:
			return nil, fmt.Errorf("read history: %w", errDamaged)
		}
		after = b.ID
		w.args[0] = after
	}
}
