//go:build linux

package holdings

import (
	"context"
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
)

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
func stillOpen(k Kernel, ports []Port) (open []Port, err error) {
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
