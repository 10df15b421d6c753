package document

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

func Halt(h tracer.Halt, c Clock) *api.Halt {
	if h.Mode == tracer.HaltNone {
		return nil
	}
	return &api.Halt{Mode: h.Mode.String(), Reason: h.Reason, UID: int(h.UID), Since: c.Wall(h.Since)}
}
