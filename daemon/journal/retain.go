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
func (j *Journal) retain(ctx context.Context, w *sql.DB, b *Batch, bytes int64) (used int64, err error) {
	room := min(max(j.o.MaxBytes/8, bytes+j.reserved()), j.o.MaxBytes/2)
	now := j.o.Now()
	if d := now.Sub(j.pruned); d < 0 || d >= pruneEvery {
		j.pruned = now
		if j.o.MaxAge > 0 {
			if err := j.pruneEnded(ctx, w, now.Add(-j.o.MaxAge).UnixNano()); err != nil {
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
			n, err := j.prune(ctx, w, func(tx *sql.Tx) (int64, error) { return j.removeDead(ctx, tx, b.Spare) })
			if n == 0 || err != nil {
				return used, err
			}
			continue
		}
		if err := j.pruneEnded(ctx, w, until.Int64+1); err != nil {
			return 0, err
		}
	}
}

// prune removes rows in one transaction, and counts them.
func (j *Journal) prune(ctx context.Context, w *sql.DB, remove func(*sql.Tx) (int64, error)) (removed int64, err error) {
	err = inTx(ctx, w, func(tx *sql.Tx) error {
		if removed, err = remove(tx); err != nil || removed == 0 {
			return err
		}
		_, err := tx.ExecContext(ctx, "PRAGMA incremental_vacuum(4096)")
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune history: %w", err)
	}
	j.mu.Lock()
	j.stats.Pruned += uint64(removed)
	j.mu.Unlock()
	return removed, nil
}

// pruneEnded removes what ended before a time, in small transactions.
func (j *Journal) pruneEnded(ctx context.Context, w *sql.DB, before int64) error {
	for {
		removed, err := j.prune(ctx, w, func(tx *sql.Tx) (int64, error) { return removeEnded(ctx, tx, before) })
		if err != nil || removed == 0 {
			return err
		}
	}
}

func removeEnded(ctx context.Context, tx *sql.Tx, before int64) (removed int64, err error) {
	for _, q := range []string{
		"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE ended < ?1 ORDER BY ended LIMIT ?2)",
		`DELETE FROM listeners WHERE (boot, pid, start, since) IN
			(SELECT boot, pid, start, since FROM listeners WHERE ended < ?1 ORDER BY ended LIMIT ?2)`,
		// Of a session its ports and processes first.
		`DELETE FROM listeners WHERE (boot, session) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)`,
		`DELETE FROM processes WHERE (boot, session) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)`,
		"DELETE FROM ends WHERE (boot, id) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)",
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
	return removed, nil
}

// pruneDead is how many processes of a live session one transaction removes.
const pruneDead = 1024

// removeDead removes the oldest dead processes of a live session: of the user whose live sessions take
// the most, the largest one that has some.
func (j *Journal) removeDead(ctx context.Context, tx *sql.Tx, spare func(uint32, uint64, tracer.SessionID) bool) (removed int64, err error) {
	if spare == nil {
		return 0, nil
	}
	ids, err := liveBySize(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		dead, err := j.spared(ctx, tx, id, spare)
		if err != nil {
			return 0, err
		}
		if len(dead) > 0 {
			return int64(len(dead)), j.put(ctx, tx, &Batch{Gone: dead}, nil)
		}
	}
	return 0, nil
}

// liveBySize lists the live sessions of the user whose live sessions take the most, the largest first.
func liveBySize(ctx context.Context, tx *sql.Tx) (ids []tracer.SessionID, err error) {
	const q = `WITH live AS (SELECT s.id, s.uid, sum(length(p.doc)) AS size FROM sessions s
		JOIN processes p ON p.boot = s.boot AND p.session = s.id WHERE s.ended IS NULL GROUP BY s.boot, s.id)
		SELECT id FROM live WHERE uid = (SELECT uid FROM live GROUP BY uid ORDER BY sum(size) DESC LIMIT 1) ORDER BY size DESC`
	err = each(ctx, tx, q, nil, func(rows *sql.Rows) error {
		var id tracer.SessionID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// spared are the oldest processes of a session that may be deleted.
func (j *Journal) spared(ctx context.Context, tx *sql.Tx, id tracer.SessionID, spare func(uint32, uint64, tracer.SessionID) bool) (dead []Process, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT pid, start FROM processes WHERE boot = ? AND session = ? ORDER BY start", j.o.Boot, int64(id))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for len(dead) < pruneDead && rows.Next() {
		p := Process{Session: id}
		if err := rows.Scan(&p.PID, &p.Start); err != nil {
			return nil, err
		}
		if spare(p.PID, p.Start, id) {
			dead = append(dead, p)
		}
	}
	return dead, rows.Err()
}
