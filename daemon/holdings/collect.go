//go:build linux

package holdings

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// beforeSignal bounds the time for reading ports and locks while signals wait for it.
	beforeSignal = 40 * time.Millisecond
	// collectAside bounds it while nothing waits.
	collectAside = time.Second
)

// ask requests that the holdings of a session are read at once: it begins to end, or running
// processes were entered.
func (h *Holdings) ask(id tracer.SessionID) {
	system.Offer(h.ending, id) // many end at once: the result of the last look has to do
}

// CollectBefore reads what the members of sessions hold before the first signal, which waits for each no longer than
// Options.Before, and for all no longer than collectAside.
func (h *Holdings) CollectBefore(ids ...tracer.SessionID) {
	each, done := cmp.Or(h.o.Before, beforeSignal), make(chan struct{})
	limit := max(each, min(each*time.Duration(len(ids)), collectAside))
	go h.o.Registry.Guard(func() {
		defer close(done)
		h.collect(limit, ids...)
	})
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// collect reads what the members of sessions hold now, in one look.
func (h *Holdings) collect(limit time.Duration, ids ...tracer.SessionID) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := h.o.Clock.Boottime()
	only := tracer.SessionID(0)
	if len(ids) == 1 {
		only = ids[0]
	}
	all, err := walk(h.o.Kernel, only, nil)
	_, around := h.active(func() {}) // after the walk: members of a session that began meanwhile have a place
	if err != nil {
		h.o.Log.Error().Err(err).Str(system.KeySession, fmt.Sprint(ids)).Msg("ports and locks not read")
		return
	}
	for id, its := range bySession(all, ids, around) {
		h.found(id, h.reader.Of(ctx, slices.SortedFunc(maps.Keys(its), byPID)), began)
	}
}

func byPID(a, b tracer.Identity) int { return cmp.Compare(a.PID, b.PID) }

// found hands what a look at a session found to the registry's goroutine, as far as one receipt names it.
func (h *Holdings) found(id tracer.SessionID, now Held, began uint64) {
	now.Fit(maxHeld, func(int) bool { return true })
	h.o.Registry.Do(func(t registry.Tx) {
		if s := t.Session(id); s != nil {
			t.Refresh(s)
			h.Note(t.View, s, now, began)
		}
	})
}

// freed finds which ports are free now. Of those that no look found the kernel reports whether
// their socket is still open; they have no Holder then.
func (h *Holdings) freed(ctx context.Context, ports []Port) Freed {
	open, err := stillOpen(h.o.Kernel, ports)
	f := h.reader.Freed(ctx, slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return slices.Contains(open, p) }))
	if err != nil {
		f.Unknown = append(f.Unknown, "ports: "+err.Error())
	}
	for _, p := range open {
		p.Holder = tracer.Identity{}
		f.Busy = append(f.Busy, p)
	}
	return f
}

// stillOpen returns those of the ports that only the kernel reported, and that are open.
func stillOpen(k registry.Kernel, ports []Port) (open []Port, err error) {
	reported := slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return p.Looked() })
	if len(reported) == 0 {
		return nil, nil
	}
	err = k.Listeners(func(ev *tracer.Event) {
		for _, p := range reported {
			if p.Holder == ev.Process && p.Local == ev.Address && !slices.Contains(open, p) {
				open = append(open, p)
			}
		}
	})
	return open, err
}

// holders finds the holders of the busy ports that no look found: the process that began to listen
// may be dead.
func (h *Holdings) holders(ctx context.Context, busy []Port) (all []Port, unknown []string) {
	for _, p := range busy {
		if p.Looked() {
			all = append(all, p)
			continue
		}
		found, _ := h.reader.Listeners(ctx, "tcp", p.Local.Port())
		unknown = append(unknown, found.Unknown...)
		same := slices.DeleteFunc(found.Ports, func(q Port) bool { return !q.Same(&p) || q.Holder.IsZero() })
		if len(same) == 0 {
			same = []Port{p}
		}
		all = append(all, same...)
	}
	return all, unknown
}
