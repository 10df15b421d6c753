//go:build linux

package document

import (
	"net/netip"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Port is a port that a process listens on.
func Port(p *resources.Port) api.Port {
	return api.Port{
		Proto: p.Proto, Addr: p.Addr(), Port: int(p.Local.Port()),
		PID: int(p.Holder.PID), StartNS: api.U64(p.Holder.Start), Netns: p.Netns,
	}
}

// Listener is a TCP port that a process listened on; ended is zero if it is unknown.
func Listener(id tracer.Identity, at netip.AddrPort, began, ended time.Time) api.Port {
	p := *listened(at)
	p.PID, p.StartNS, p.Since = int(id.PID), api.U64(id.Start), &began
	if !ended.IsZero() {
		p.Until = &ended
	}
	return p
}

// Lock is a lock that a process holds.
func Lock(l *resources.Lock) api.Lock {
	return api.Lock{
		Type: l.Kind, Mode: l.Mode, Path: l.Path, PID: int(l.Holder.PID), StartNS: api.U64(l.Holder.Start), Waiting: l.Waiting,
	}
}

// Holds is what processes hold, nil if that is nothing.
func Holds(h resources.Held, files []resources.File) *api.Holds {
	d := &api.Holds{Unknown: h.Unknown}
	for i := range h.Ports {
		d.Ports = append(d.Ports, Port(&h.Ports[i]))
	}
	for i := range h.Locks {
		d.Locks = append(d.Locks, Lock(&h.Locks[i]))
	}
	for _, f := range files {
		d.Files = append(d.Files, api.File{Path: f.Path, Access: f.Access, PID: int(f.Holder.PID)})
	}
	if len(d.Ports)+len(d.Locks)+len(d.Files)+len(d.Unknown) == 0 {
		return nil
	}
	return d
}

// PortNumbers are the ports of sockets, by holder.
func PortNumbers(held []resources.Port) map[tracer.Identity][]int {
	ports := make(map[tracer.Identity][]int)
	for i := range held {
		if p := &held[i]; p.Proto != "unix" {
			ports[p.Holder] = append(ports[p.Holder], int(p.Local.Port()))
		}
	}
	return ports
}
