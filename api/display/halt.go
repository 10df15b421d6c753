package display

import (
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Halt describes a halt that is in force, on one line.
func Halt(h *api.Halt) string {
	what, since := "the host is halted", ""
	if h.Mode == api.ModeDrain {
		what = "the host is drained"
	}
	if h.Since != nil {
		since = " since " + h.Since.UTC().Format(time.DateTime) + " UTC"
	}
	return Text(fmt.Sprintf("%s by uid %d%s: %s", what, h.UID, since, h.Reason))
}

// HaltLine says what a halt does that is in force; nil: none is.
func HaltLine(h *api.Halt) string {
	switch {
	case h == nil:
		return "the host is not halted: agents may start"
	case h.Mode == api.ModeDrain:
		return Halt(h) + `; no new session may start until "lineage halt --off"`
	}
	return Halt(h) + `; known agents die at their exec until "lineage halt --off"`
}
