//go:build linux

package journal

import (
	"context"
	"database/sql"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Listener is a TCP port that a member listened on.
type Listener struct {
	Boot    string
	Session tracer.SessionID
	Process tracer.Identity
	Since   uint64 // boottime
	Address netip.AddrPort
	Began   time.Time
	Ended   time.Time // zero: unknown
}

func (l *Listener) sum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%d\x00%d\x00%s\x00%d\x00%d",
		l.Boot, l.Session, l.Process.PID, l.Process.Start, l.Since, l.Address, l.Began.UnixNano(), nano(l.Ended)))
}

// listenerOf is the port that an event is about, at a boot whose boottime 0 was at zero; nil for
// any other event.
func listenerOf(boot string, zero time.Time, ev *tracer.Event) *Listener {
	if ev.Type != tracer.EventListen && ev.Type != tracer.EventUnlisten || ev.Address.Port() == 0 {
		return nil
	}
	l := &Listener{
		Boot: boot, Session: ev.Session, Process: ev.Process, Since: ev.Since, Address: ev.Address, Began: zero.Add(time.Duration(ev.Since)).UTC(),
	}
	if ev.Type == tracer.EventUnlisten {
		l.Ended = zero.Add(time.Duration(ev.Time)).UTC()
	}
	return l
}

// putListeners writes the ports that the events of a batch are about: a row for each, which the
// second event completes.
func (j *Journal) putListeners(ctx context.Context, tx *sql.Tx, b *Batch) error {
	for i := range b.Events {
		l := listenerOf(j.o.Boot, b.Zero, &b.Events[i].Event)
		if l == nil {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO listeners
			(boot, pid, start, since, session, address, port, began, ended, sum) VALUES (?,?,?,?,?,?,?,?,?,?)`,
			l.Boot, l.Process.PID, int64(l.Process.Start), int64(l.Since), int64(l.Session), l.Address.String(), l.Address.Port(),
			l.Began.UnixNano(), wall{&l.Ended}, l.sum())
		if err != nil {
			return err
		}
	}
	return nil
}

// Listeners returns those that listened on a port at a time, the last that began first. One without a
// known end listened until its session ended.
func (j *Journal) Listeners(ctx context.Context, port uint16, at time.Time) (all []Listener, err error) {
	const q = `SELECT l.boot, l.pid, l.start, l.since, l.session, l.address, l.began, l.ended, l.sum
		FROM listeners l LEFT JOIN sessions s ON s.boot = l.boot AND s.id = l.session
		WHERE l.port = ?1 AND l.began <= ?2 AND coalesce(l.ended, s.ended, ?2) >= ?2 ORDER BY l.began DESC LIMIT 64`
	err = j.rows(ctx, q, []any{port, at.UnixNano()}, func(rows *sql.Rows) error {
		var l Listener
		var address string
		var sum uint32
		err := rows.Scan(&l.Boot, &l.Process.PID, &l.Process.Start, &l.Since, &l.Session, &address, wall{&l.Began}, wall{&l.Ended}, &sum)
		if err != nil {
			return errDamaged
		}
		if l.Address, err = netip.ParseAddrPort(address); err != nil || l.sum() != sum {
			return errDamaged
		}
		all = append(all, l)
		return nil
	})
	return all, err
}
