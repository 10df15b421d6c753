//go:build linux

package journal

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// pruneEvery is how often age is checked.
const pruneEvery = 10 * time.Second

// pruneStep is how many blocks or sessions one transaction removes.
const pruneStep = 64

// retain removes what is too old or too much: first by age, then, beyond the size,
// blocks of events, ports and ended sessions, oldest first, and at last dead processes of
// live sessions. There must be room for a batch of that many bytes, which may be half of
// the file. It returns how many bytes are in use.
func (j *Journal) retain(ctx context.Context, b *Batch, bytes int64) (used int64, err error) {
	room := min(max(j.o.MaxBytes/8, bytes+j.reserved()), j.o.MaxBytes/2)
	j.mu.Lock()
	w := j.writer
	j.mu.Unlock()
	now := j.o.Now()
	if d := now.Sub(j.pruned); d < 0 || d >= pruneEvery {
		j.pruned = now
		if j.o.MaxAge > 0 {
			if err := j.prune(ctx, w, now.Add(-j.o.MaxAge).UnixNano()); err != nil {
				return 0, err
			}
		}
	}
	for {
		if used, err = size(ctx, w); err != nil {
			return 0, err
		}
		j.mu.Lock()
		j.stats.Bytes = used
		j.mu.Unlock()
		if used <= j.o.MaxBytes-room {
			return used, nil
		}
		var until sql.NullInt64
		err = w.QueryRowContext(ctx, `SELECT max(ended) FROM (SELECT ended FROM
			(SELECT ended FROM events UNION ALL SELECT ended FROM sessions WHERE ended IS NOT NULL) ORDER BY ended LIMIT ?)`, pruneStep).Scan(&until)
		if err != nil {
			return 0, fmt.Errorf("prune history: %w", err)
		}
		if !until.Valid { // only live sessions are left
			if n, err := j.pruneLive(ctx, w, b.Spare); n == 0 || err != nil {
				return used, err
			}
			continue
		}
		if err := j.prune(ctx, w, until.Int64+1); err != nil {
			return 0, err
		}
	}
}

// prune removes what ended before a time, in small transactions.
func (j *Journal) prune(ctx context.Context, w *sql.DB, before int64) error {
	for {
		removed, err := pruneSome(ctx, w, before)
		if err != nil {
			return fmt.Errorf("prune history: %w", err)
		}
		j.mu.Lock()
		j.stats.Pruned += uint64(removed)
		j.mu.Unlock()
		if removed == 0 {
			return nil
		}
	}
}

func pruneSome(ctx context.Context, w *sql.DB, before int64) (removed int64, err error) {
	tx, err := w.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	for _, q := range []string{
		"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE ended < ?1 ORDER BY ended LIMIT ?2)",
		`DELETE FROM listeners WHERE (boot, pid, start, since) IN
			(SELECT boot, pid, start, since FROM listeners WHERE ended < ?1 ORDER BY ended LIMIT ?2)`,
		// Of a session its ports and processes first.
		`DELETE FROM listeners WHERE (boot, session) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)`,
		`DELETE FROM processes WHERE (boot, session) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)`,
		"DELETE FROM sessions WHERE (boot, id) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)",
	} {
		r, err := tx.ExecContext(ctx, q, before, pruneStep)
		if err != nil {
			return 0, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return 0, err
		}
		removed += n
	}
	if removed == 0 {
		return 0, nil
	}
	if _, err := tx.ExecContext(ctx, "PRAGMA incremental_vacuum(4096)"); err != nil {
		return 0, err
	}
	return removed, tx.Commit()
}

// pruneDead is how many processes of a live session one transaction removes.
const pruneDead = 1024

// pruneLive removes the oldest dead processes of a live session: of the user whose live sessions take
// the most, the largest one that has some.
func (j *Journal) pruneLive(ctx context.Context, w *sql.DB, spare func(uint32, uint64, tracer.SessionID) bool) (removed int64, err error) {
	if spare == nil {
		return 0, nil
	}
	tx, err := w.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("prune history: %w", err)
	}
	defer tx.Rollback()
	ids, err := liveBySize(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("prune history: %w", err)
	}
	for _, id := range ids {
		dead, err := j.spared(ctx, tx, id, spare)
		if err != nil {
			return 0, fmt.Errorf("prune history: %w", err)
		}
		if len(dead) == 0 {
			continue
		}
		if err := j.put(ctx, tx, &Batch{Gone: dead}, nil); err != nil {
			return 0, fmt.Errorf("prune history: %w", err)
		}
		if _, err := tx.ExecContext(ctx, "PRAGMA incremental_vacuum(4096)"); err != nil {
			return 0, fmt.Errorf("prune history: %w", err)
		}
		j.mu.Lock()
		j.stats.Pruned += uint64(len(dead))
		j.mu.Unlock()
		return int64(len(dead)), tx.Commit()
	}
	return 0, nil
}

// liveBySize lists the live sessions of the user whose live sessions take the most, the largest first.
func liveBySize(ctx context.Context, q query) (ids []tracer.SessionID, err error) {
	rows, err := q.QueryContext(ctx, `WITH live AS (SELECT s.id, s.uid, sum(length(p.doc)) AS size FROM sessions s
		JOIN processes p ON p.boot = s.boot AND p.session = s.id WHERE s.ended IS NULL GROUP BY s.boot, s.id)
		SELECT id FROM live WHERE uid = (SELECT uid FROM live GROUP BY uid ORDER BY sum(size) DESC LIMIT 1) ORDER BY size DESC`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, tracer.SessionID(id))
	}
	return ids, rows.Err()
}

// spared are the oldest processes of a session that may be deleted.
func (j *Journal) spared(ctx context.Context, q query, id tracer.SessionID, spare func(uint32, uint64, tracer.SessionID) bool) (dead []Process, err error) {
	rows, err := q.QueryContext(ctx, "SELECT pid, start FROM processes WHERE boot = ? AND session = ? ORDER BY start", j.o.Boot, int64(id))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for len(dead) < pruneDead && rows.Next() {
		var pid uint32
		var start int64
		if err := rows.Scan(&pid, &start); err != nil {
			return nil, err
		}
		if spare(pid, uint64(start), id) {
			dead = append(dead, Process{PID: pid, Start: uint64(start), Session: id})
		}
	}
	return dead, rows.Err()
}
