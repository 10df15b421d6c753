//go:build linux

package holdings

import (
	"context"
	"slices"

	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Freed is the state of ports after the end.
type Freed struct {
	Ports []Port // no process listens any longer
	Busy  []Port // still listening, with the present holder, if it is known
	Waits []Wait
	// Unknown names what could not be read; those ports are in neither list.
	Unknown []string
}

// Wait is a freed port that a listener without SO_REUSEADDR cannot take yet.
type Wait struct {
	Port        Port
	Connections int // in TIME_WAIT
}

// Freed looks again at ports that were held. A network namespace without processes took its
// sockets with it; if the namespace is unknown, the socket was closed, and is not looked for.
func (r *Reader) Freed(ctx context.Context, ports []Port) Freed {
	var f Freed
	now, unknown := r.networksOf(ctx, ports)
	busy := make(map[uint64]listener)
	for _, p := range distinct(ports) {
		n, ok := now[p.Netns]
		if !ok && p.Netns != 0 {
			continue
		}
		if l, still := n.listeners[p.inode]; still && l.proto == p.Proto {
			busy[p.inode] = l
			continue
		}
		p.Holder = tracer.Identity{}
		f.Ports = append(f.Ports, p)
		if c := n.waits[p.Local.Port()]; c > 0 && (p.Proto == "tcp" || p.Proto == "tcp6") {
			f.Waits = append(f.Waits, Wait{p, c})
		}
	}
	var held Held
	holders := r.holders(ctx, busy, &held)
	held.unread(allHeld(held.Ports), about("holders", holders))
	f.Busy, f.Unknown = held.Ports, append(unknown, held.Unknown...)
	return f
}

func distinct(ports []Port) []Port {
	var all []Port
	for _, p := range ports {
		if !slices.ContainsFunc(all, func(o Port) bool {
			return o.inode == p.inode && o.Netns == p.Netns && o.Proto == p.Proto && (p.inode != 0 ||
				o.Local == p.Local)
		}) {
			all = append(all, p)
		}
	}
	return all
}

// networksOf reads the namespaces of the ports, each through any process that
// lives in it.
func (r *Reader) networksOf(ctx context.Context, ports []Port) (now map[uint64]network, unknown []string) {
	var held Held
	now = make(map[uint64]network)
	wanted := make(map[uint64]bool)
	for _, p := range ports {
		if p.Netns != 0 {
			wanted[p.Netns] = true
		}
	}
	take := func(p *process) error {
		netns, err := p.namespace("net")
		if err != nil || !wanted[netns] {
			return err
		}
		n, err := p.network(ctx, netns, true)
		if err == nil {
			now[netns] = n
			delete(wanted, netns)
		}
		return err
	}
	r.selfAndInit(func(p *process) {
		if err := take(p); err != nil && !denied(err) { // host reports that
			held.unknown("ports: %v", err)
		}
	})
	if len(wanted) == 0 {
		return now, held.Unknown
	}
	err := r.host(ctx, func(p *process) error {
		if len(wanted) == 0 {
			return nil
		}
		return take(p)
	})
	if held.unread(false, about("ports", err)); err != nil {
		return now, held.Unknown
	}
	for netns := range wanted {
		now[netns] = network{}
	}
	return now, held.Unknown
}

// Released looks again at locks that were held: which are released, and which are still
// held, with the holder if it is known. A lock file is closed with its holders; whether
// it still exists is not checked.
func (r *Reader) Released(ctx context.Context, locks []Lock) (released, held []Lock, unknown []string) {
	now := make(map[string]bool)
	err := r.locks(func(e lockEntry, err error) {
		if err == nil && !e.waiting {
			now[e.key()] = true
		}
	})
	if err != nil {
		return nil, nil, []string{"locks: " + err.Error()}
	}
	paths := make(map[string]bool)
	for _, l := range locks {
		l.Holder, l.Waiting = tracer.Identity{}, nil
		same := func(o Lock) bool { return o.Same(&l) }
		switch {
		case slices.ContainsFunc(released, same) || slices.ContainsFunc(held, same):
		case now[l.key]:
			held = append(held, l)
			paths[l.Path] = true
		default:
			released = append(released, l)
		}
	}
	if len(held) == 0 {
		return released, nil, nil
	}
	err = r.openOn(ctx, func(link string) bool { return paths[memory.ShortPath(link)] }, func(d *descriptor, id tracer.Identity) {
		info, err := d.info()
		if err != nil {
			return
		}
		for _, e := range info.locks {
			for i := range held {
				if held[i].key == e.key() {
					held[i].Holder = id
				}
			}
		}
	})
	var notes Held
	notes.unread(!slices.ContainsFunc(held, func(l Lock) bool { return l.Holder.IsZero() }),
		about("holders", err))
	return released, held, notes.Unknown
}
