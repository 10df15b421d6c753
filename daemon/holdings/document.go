//go:build linux

package holdings

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (p *Port) Document() api.Port {
	return api.Port{
		Proto: p.Proto, Addr: p.Addr(), Port: int(p.Local.Port()),
		PID: int(p.Holder.PID), StartNS: api.U64(p.Holder.Start), Netns: p.Netns,
	}
}

func (l *Lock) Document() api.Lock {
	return api.Lock{
		Type: l.Kind, Mode: l.Mode, Path: l.Path, PID: int(l.Holder.PID),
		StartNS: api.U64(l.Holder.Start), Waiting: l.Waiting,
	}
}

// Document is what processes hold, with the files, as the API has it; nil if that is nothing.
func (h *Held) Document(files []File) *api.Holds {
	d := &api.Holds{Unknown: h.Unknown}
	for i := range h.Ports {
		d.Ports = append(d.Ports, h.Ports[i].Document())
	}
	for i := range h.Locks {
		d.Locks = append(d.Locks, h.Locks[i].Document())
	}
	for _, f := range files {
		d.Files = append(d.Files, api.File{Path: f.Path, Access: f.Access, PID: int(f.Holder.PID)})
	}
	if len(d.Ports)+len(d.Locks)+len(d.Files)+len(d.Unknown) == 0 {
		return nil
	}
	return d
}

func PortNumbers(held []Port) map[tracer.Identity][]int {
	ports := make(map[tracer.Identity][]int)
	for i := range held {
		if p := &held[i]; p.Proto != "unix" {
			ports[p.Holder] = append(ports[p.Holder], int(p.Local.Port()))
		}
	}
	return ports
}
