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

// pruneEvery is how often age is checked.
const pruneEvery = 10 * time.Second

// pruneStep is how many blocks or sessions one transaction removes.
const pruneStep = 64

// retain removes what is too old, then, beyond the size, blocks of events and ended sessions, oldest first, and at last
// dead processes of live sessions. It leaves room for a batch of that many bytes, and returns how many are in use.
func (j *Journal) retain(ctx context.Context, w *sql.DB, b *Batch, bytes int64) (used int64, err error) {
	room := min(max(j.o.MaxBytes/8, bytes+j.reserved()), j.o.MaxBytes/2)
	now := j.o.Now()
	old := func(tx *sql.Tx) (int64, error) { return removeEnded(ctx, tx, now.Add(-j.o.MaxAge).UnixNano()) }
	if d := now.Sub(j.pruned); j.o.MaxAge > 0 && (d < 0 || d >= pruneEvery) {
		j.pruned = now
		for n := int64(1); n > 0; {
			if n, err = j.prune(ctx, w, old); err != nil {
				return 0, err
			}
		}
	}
	for {
		if used, err = size(ctx, w); err != nil {
			return 0, err
		}
		j.locked(func() { j.stats.Bytes = used })
		if used <= j.o.MaxBytes-room {
			return used, nil
		}
		n, err := j.prune(ctx, w, func(tx *sql.Tx) (int64, error) { return j.removeOldest(ctx, tx, b) })
		if n == 0 || err != nil {
			return used, err
		}
	}
}

// prune removes rows in one transaction, and counts them.
func (j *Journal) prune(ctx context.Context, w *sql.DB,
	remove func(*sql.Tx) (int64, error)) (removed int64, err error) {
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
	j.locked(func() { j.stats.Pruned += uint64(removed) })
	return removed, nil
}

// removeOldest removes what ended first or, if only live sessions are left, of their dead processes.
func (j *Journal) removeOldest(ctx context.Context, tx *sql.Tx, b *Batch) (int64, error) {
	var until sql.NullInt64
	err := tx.QueryRowContext(ctx, `SELECT max(ended) FROM (SELECT ended FROM
		(SELECT ended FROM events UNION ALL SELECT ended FROM sessions WHERE ended IS NOT NULL) ORDER BY ended LIMIT ?)`,
		pruneStep).Scan(&until)
	switch {
	case err != nil:
		return 0, err
	case until.Valid:
		return removeEnded(ctx, tx, until.Int64+1)
	case b.Spare == nil:
		return 0, nil
	}
	return j.removeDead(ctx, tx, b.Spare)
}

func removeEnded(ctx context.Context, tx *sql.Tx, before int64) (removed int64, err error) {
	for _, q := range []string{
		"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE ended < ?1 ORDER BY ended LIMIT ?2)",
		// Of a session its processes first.
		`DELETE FROM processes WHERE (boot, session) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)`,
		"DELETE FROM ends WHERE (boot, id) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)",
		"DELETE FROM sessions WHERE (boot, id) IN (SELECT boot, id FROM sessions WHERE ended < ?1 ORDER BY ended, id LIMIT ?2)",
	} {
		r, err := tx.ExecContext(ctx, q, before, pruneStep)
		if err != nil {
			return 0, err
		}
		n, _ := r.RowsAffected() // it never fails
		removed += n
	}
	return removed, nil
}

// pruneDead is how many processes of a live session one transaction removes.
const pruneDead = 1024

// removeDead removes the oldest dead processes of a live session: of the user whose live sessions take
// the most, the largest one that has some.
func (j *Journal) removeDead(ctx context.Context, tx *sql.Tx,
	spare func(uint32, uint64, tracer.SessionID) bool) (removed int64, err error) {
	const q = `WITH live AS (SELECT s.boot, s.id, s.uid, sum(length(p.doc)) AS size FROM sessions s
		JOIN processes p ON p.boot = s.boot AND p.session = s.id WHERE s.boot = ? AND s.ended IS NULL GROUP BY s.id)
		SELECT p.pid, p.start, p.session FROM live JOIN processes p ON p.boot = live.boot AND p.session = live.id
		WHERE uid = (SELECT uid FROM live GROUP BY uid ORDER BY sum(size) DESC LIMIT 1) ORDER BY size DESC, id, start`
	var dead []Process
	err = each(ctx, tx, q, []any{j.o.Boot}, func(rows *sql.Rows) error {
		var p Process
		if err := rows.Scan(&p.PID, &p.Start, &p.Session); err != nil {
			return err
		}
		if n := len(dead); n == pruneDead || n > 0 && p.Session != dead[0].Session {
			return errEnough
		}
		if spare(p.PID, p.Start, p.Session) {
			dead = append(dead, p)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, err
	}
	return int64(len(dead)), j.put(ctx, tx, &Batch{Gone: dead}, nil)
}

var errEnough = errors.New("enough rows")
