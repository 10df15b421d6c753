//go:build linux

package httpapi

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxLeftOut bounds the processes that a reply names.
const maxLeftOut = 16

// leftOut names the children of members that were not adopted with them: an end would signal them, which their uid forbids
// to the caller.
func (h *creations) leftOut(c access.Caller, id tracer.SessionID) (warnings []string) {
	if c.UID == 0 {
		return nil
	}
	members, left := make(map[tracer.Identity]bool), []tracer.Process(nil)
	if err := h.Kernel.Snapshot(0, func(p *tracer.Process) error {
		switch {
		case p.Dead:
		case p.Session == id:
			members[p.Identity] = true
		case p.Session == 0 && !p.Kernel && p.Flags&tracer.FlagProtected == 0:
			left = append(left, *p)
		}
		return nil
	}); err != nil {
		return []string{"processes of other users are not adopted, and their names are not known"}
	}
	more := 0
	for _, p := range left {
		switch {
		case !members[p.Parent]:
		case len(warnings) < maxLeftOut:
			warnings = append(warnings, fmt.Sprintf("pid %d (%s) and its descendants are not adopted: it runs as uid %d; run with sudo to adopt them",
				p.PID, p.Comm, p.UID))
		default:
			more++
		}
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more processes of other users are not adopted", more))
	}
	return warnings
}
