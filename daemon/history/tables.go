//go:build linux

package history

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (w *wire) signal(s *lineage.Signal) {
	octet(w, &s.Number)
	octet(w, &s.Sender)
	w.bits(&s.Handled, &s.Raised, &s.Passed)
	number(w, &s.Time)
	w.identity(&s.By)
	number(w, &s.Session)
	number(w, &s.UID)
	text(w, &s.Comm)
}

func (w *wire) crossing(c *tracer.Crossing) {
	octet(w, &c.Signal)
	w.bits(&c.Refused)
	w.identity(&c.To)
	number(w, &c.Session)
	number(w, &c.UID)
	text(w, &c.Comm)
}

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
		&l.Boot, &l.Process.PID, &l.Process.Start, &l.Since, &l.Session, endpoint{&l.Address}, new(l.Address.Port()), wall{&l.Began}, wall{&l.Ended},
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
			Boot: boot, Session: ev.Session, Process: ev.Process, Since: ev.Since, Address: ev.Address, Began: b.Zero.Add(time.Duration(ev.Since)),
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

// shared is what many events of a block have. It is written where it comes first, and then a number refers to
// it: 0 for none, then in their order.
type shared[T comparable] struct {
	all     []T
	numbers map[T]uint64 // of all, to write them
}

// item is x, of which content is the first time.
func (s *shared[T]) item(w *wire, x *T, content func(*T)) {
	if s.numbers == nil {
		s.numbers = make(map[T]uint64)
	}
	var none T
	next := uint64(len(s.all) + 1)
	n := s.numbers[*x]
	if n == 0 && *x != none {
		n = next
	}
	switch n = w.count(n, next); {
	case n == next:
		content(x)
		s.all = append(s.all, *x)
		if !w.reading {
			s.numbers[*x] = n
		}
	case w.reading && n > 0:
		*x = s.all[n-1]
	}
}

func (w *wire) container(x **lineage.Container) {
	w.containers.item(w, x, func(x **lineage.Container) {
		var b []byte
		if c := made(w, x); !w.reading {
			b, _ = json.Marshal(c) // nothing, of a time that JSON does not have
		}
		if text(w, &b); w.reading && b != nil && json.Unmarshal(b, *x) != nil {
			w.fail()
		}
	})
}

func (w *wire) image(x **lineage.Image) {
	w.images.item(w, x, func(x **lineage.Image) {
		i := made(w, x)
		text(w, &i.Comm)
		text(w, &i.Exe)
		w.bits(&i.Truncated)
		var argv string
		if len(i.Argv) > 0 {
			argv = strings.Join(i.Argv, "\x00") + "\x00"
		}
		if text(w, &argv); w.reading && argv != "" {
			i.Argv = strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
		}
	})
}
