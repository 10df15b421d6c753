//go:build linux

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// readTimeout bounds one query.
const readTimeout = 10 * time.Second

const sessionColumns = "boot, id, word, name, uid, parent, zero, started, ended, doc, report, state, sum"

// rows runs a query of the readers and passes each of its rows to scan.
func (j *Journal) rows(ctx context.Context, q string, args []any, scan func(*sql.Rows) error) error {
	db, err := j.db()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := db.QueryContext(ctx, q, args...)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		switch err := scan(rows); {
		case errors.Is(err, errDamaged):
			j.unread()
		case err != nil:
			return fmt.Errorf("read history: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

// sessions reads sessions; damaged ones are left out and counted.
func (j *Journal) sessions(ctx context.Context, where string, args ...any) (all []Session, err error) {
	err = j.rows(ctx, "SELECT "+sessionColumns+" FROM sessions WHERE "+where, args, func(rows *sql.Rows) error {
		var s Session
		var id, parent, zero, started int64
		var ended sql.NullInt64
		var sum uint32
		err := rows.Scan(&s.Boot, &id, &s.Word, &s.Name, &s.UID, &parent, &zero, &started, &ended, &s.Doc, &s.Report, &s.State, &sum)
		if err != nil {
			return errDamaged
		}
		s.ID, s.Parent = tracer.SessionID(id), tracer.SessionID(parent)
		s.Zero, s.Started = time.Unix(0, zero).UTC(), time.Unix(0, started).UTC()
		if ended.Valid {
			s.Ended = time.Unix(0, ended.Int64).UTC()
		}
		if s.sum() != sum {
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
func (j *Journal) First(ctx context.Context) (first time.Time, err error) {
	err = j.rows(ctx, "SELECT began FROM events ORDER BY id LIMIT 1", nil, func(rows *sql.Rows) error {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return errDamaged
		}
		first = time.Unix(0, at).UTC()
		return nil
	})
	return first, err
}

// Last gives the time of the last event of a boot, zero if there is none.
func (j *Journal) Last(ctx context.Context, boot string) (last time.Time, err error) {
	err = j.rows(ctx, "SELECT max(ended) FROM events WHERE boot = ?", []any{boot}, func(rows *sql.Rows) error {
		var at sql.NullInt64
		if err := rows.Scan(&at); err != nil {
			return errDamaged
		}
		if at.Valid {
			last = time.Unix(0, at.Int64).UTC()
		}
		return nil
	})
	return last, err
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
		var start, id int64
		var sum uint32
		if err := rows.Scan(&p.PID, &start, &id, &p.Doc, &sum); err != nil {
			return errDamaged
		}
		p.Start, p.Session = uint64(start), tracer.SessionID(id)
		if p.sum(boot) != sum {
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
		var found *block
		err := j.rows(ctx, "SELECT id, boot, zero, first, last, began, ended, data, sum FROM events WHERE "+where+" ORDER BY id LIMIT 1", args,
			func(rows *sql.Rows) error {
				var b block
				var first, last int64
				var sum uint32
				found = &b
				if err := rows.Scan(&b.id, &b.boot, &b.zero, &first, &last, &b.began, &b.ended, &b.data, &sum); err != nil {
					return errDamaged
				}
				if b.first, b.last = uint64(first), uint64(last); b.sum() != sum {
					b.data = nil
					return errDamaged
				}
				return nil
			})
		if err != nil || found == nil {
			return nil, err
		}
		if found.data != nil {
			records, err := decode(found.data)
			if err == nil {
				return &Block{ID: found.id, Boot: found.boot, Zero: time.Unix(0, found.zero).UTC(), Records: records}, nil
			}
			j.unread()
		}
		if found.id <= after {
			return nil, fmt.Errorf("read history: %w", errDamaged)
		}
		after = found.id
		args[0] = after
	}
}
