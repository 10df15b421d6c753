//go:build linux

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// readTimeout bounds one query.
const readTimeout = 10 * time.Second

const sessionColumns = "boot, id, word, name, uid, parent, zero, started, ended, doc, report, state, sum"

// rows runs a query of the readers and passes each of its rows to scan; a damaged one is counted.
func (j *Journal) rows(ctx context.Context, q string, args []any, scan func(*sql.Rows) error) error {
	db, err := j.db()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = each(ctx, db, q, args, func(rows *sql.Rows) error {
		err := scan(rows)
		if errors.Is(err, errDamaged) {
			j.unread()
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

// sessions reads sessions; damaged ones are left out and counted.
func (j *Journal) sessions(ctx context.Context, where string, args ...any) (all []Session, err error) {
	err = j.rows(ctx, "SELECT "+sessionColumns+" FROM sessions WHERE "+where, args, func(rows *sql.Rows) error {
		var s Session
		var sum uint32
		err := rows.Scan(&s.Boot, &s.ID, &s.Word, &s.Name, &s.UID, &s.Parent, wall{&s.Zero}, wall{&s.Started}, wall{&s.Ended},
			&s.Doc, &s.Report, &s.State, &sum)
		if err != nil || s.sum() != sum {
			return errDamaged
		}
		all = append(all, s)
		return nil
	})
	return all, err
}

// Live returns the sessions that had not ended when they were last written, of every
// boot.
func (j *Journal) Live(ctx context.Context) ([]Session, error) {
	return j.sessions(ctx, "ended IS NULL ORDER BY started LIMIT 65536")
}

// Query selects ended sessions.
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

// Place of a session that has ended.
func (s *Session) Place() Place { return Place{s.Ended.UnixNano(), s.ID} }

// Behind reports whether p comes after q.
func (p Place) Behind(q Place) bool {
	return q.Ended == 0 || p.Ended < q.Ended || p.Ended == q.Ended && p.ID < q.ID
}

// Ended lists ended sessions, the newest first.
func (j *Journal) Ended(ctx context.Context, q Query) ([]Session, error) {
	where, args := "ended IS NOT NULL", []any(nil)
	and := func(clause string, values ...any) {
		where += " AND " + clause
		args = append(args, values...)
	}
	if q.UID != nil {
		and("uid = ?", *q.UID)
	}
	if !q.Since.IsZero() {
		and("ended >= ?", q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		and("ended <= ?", q.Until.UnixNano())
	}
	if q.Name != "" {
		and("name = ?", q.Name)
	}
	if q.Before.Ended != 0 {
		and("(ended, id) < (?, ?)", q.Before.Ended, int64(q.Before.ID))
	}
	return j.sessions(ctx, where+" ORDER BY ended DESC, id DESC LIMIT ?", append(args, q.Limit)...)
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
	err = j.rows(ctx, "SELECT coalesce(max(number), 0) FROM ends", nil, func(rows *sql.Rows) error { return rows.Scan(&number) })
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

// Session gives the row of one session.
func (j *Journal) Session(ctx context.Context, boot string, id tracer.SessionID) (*Session, error) {
	all, err := j.sessions(ctx, "boot = ? AND id = ?", boot, int64(id))
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

// Nested lists the sessions of a boot that are nested in one.
func (j *Journal) Nested(ctx context.Context, boot string, parent tracer.SessionID) ([]Session, error) {
	return j.sessions(ctx, "boot = ? AND parent = ? ORDER BY started LIMIT 1024", boot, int64(parent))
}

// Processes gives the processes of a session in the order of their start.
func (j *Journal) Processes(ctx context.Context, boot string, session tracer.SessionID) ([]Process, error) {
	return j.processes(ctx, boot, "boot = ? AND session = ? ORDER BY start LIMIT 131072", boot, int64(session))
}

// processes reads processes of a boot; damaged ones are left out and counted.
func (j *Journal) processes(ctx context.Context, boot, where string, args ...any) (all []Process, err error) {
	err = j.rows(ctx, "SELECT pid, start, session, doc, sum FROM processes WHERE "+where, args, func(rows *sql.Rows) error {
		var p Process
		var sum uint32
		if err := rows.Scan(&p.PID, &p.Start, &p.Session, &p.Doc, &sum); err != nil || p.sum(boot) != sum {
			return errDamaged
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// Process returns a process of a boot, with start 0 the youngest that had the PID; nil
// if there is none.
func (j *Journal) Process(ctx context.Context, boot string, pid uint32, start uint64) (*Process, error) {
	where, args := "boot = ? AND pid = ?", []any{boot, pid}
	if start != 0 {
		where, args = where+" AND start = ?", append(args, int64(start))
	}
	all, err := j.processes(ctx, boot, where+" ORDER BY start DESC LIMIT 1", args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// Block is a run of events of one boot.
type Block struct {
	ID      int64
	Boot    string
	Zero    time.Time // wall time at boottime 0
	Records []Record

	first, last  uint64 // the numbers of the first and the last one
	began, ended int64  // wall time of the earliest and the latest one, in ns
	data         []byte // Records, encoded
}

func (b *Block) sum() uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%d\x00%d\x00%d\x00", b.Boot, b.Zero.UnixNano(), b.first, b.last, b.began, b.ended)
	h.Write(b.data)
	return h.Sum32()
}

// scan reads a row. One that is damaged has no records.
func (b *Block) scan(rows *sql.Rows) error {
	var sum uint32
	err := rows.Scan(&b.ID, &b.Boot, wall{&b.Zero}, &b.first, &b.last, &b.began, &b.ended, &b.data, &sum)
	if err != nil || b.sum() != sum {
		return errDamaged
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
func (j *Journal) Next(ctx context.Context, after int64, since time.Time, boot string, from uint64) (*Block, error) {
	where, args := "id > ?", []any{after}
	if !since.IsZero() {
		where += " AND ended >= ?"
		args = append(args, since.UnixNano())
	}
	if boot != "" {
		where += " AND boot = ? AND last >= ?"
		args = append(args, boot, int64(from))
	}
	for {
		var b *Block
		err := j.rows(ctx, "SELECT id, boot, zero, first, last, began, ended, data, sum FROM events WHERE "+where+" ORDER BY id LIMIT 1", args,
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
		args[0] = after
	}
}
