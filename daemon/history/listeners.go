//go:build linux

package history

import (
	"context"
	"database/sql/driver"
	"fmt"
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

var listenerTable = table{"listeners", "boot, pid, start, since, session, address, port, began, ended"}

func (l *Listener) fields() []any {
	return []any{
		&l.Boot, &l.Process.PID, &l.Process.Start, &l.Since, &l.Session, endpoint{&l.Address},
		new(l.Address.Port()), wall{&l.Began}, wall{&l.Ended},
	}
}

// endpoint is a column with an address and its port, as text.
type endpoint struct{ *netip.AddrPort }

// Scan is [sql.Scanner]'s.
func (e endpoint) Scan(v any) (err error) {
	*e.AddrPort, err = netip.ParseAddrPort(fmt.Sprint(v))
	return err
}

// Value is [driver.Valuer]'s.
func (e endpoint) Value() (driver.Value, error) { return e.String(), nil }

// listeners are the ports that the events of a batch are about, each of which the second event completes.
func (b *Batch) listeners(boot string) (all []Listener) {
	for i := range b.Events {
		ev := &b.Events[i]
		if ev.Type != tracer.EventListen && ev.Type != tracer.EventUnlisten || ev.Address.Port() == 0 {
			continue
		}
		l := Listener{
			Boot: boot, Session: ev.Session, Process: ev.Process, Since: ev.Since,
			Address: ev.Address, Began: b.Zero.Add(time.Duration(ev.Since)),
		}
		if ev.Type == tracer.EventUnlisten {
			l.Ended = b.Zero.Add(time.Duration(ev.Time))
		}
		all = append(all, l)
	}
	return all
}

// Listeners returns those that listened on a port at a time, the last that began first. One without a
// known end listened until its session ended.
func (j *Journal) Listeners(ctx context.Context, port uint16, at time.Time) ([]Listener, error) {
	const q = `port = ?1 AND began <= ?2 AND
		coalesce(ended, (SELECT s.ended FROM sessions s WHERE s.boot = listeners.boot AND s.id = session), ?2) >= ?2 ORDER BY began DESC LIMIT 64`
	return read[Listener](ctx, j, listenerTable, q, port, at.UnixNano())
}
