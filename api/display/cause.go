package display

import (
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// causes say why a session ends or has ended, behind its state.
var causes = map[string]string{
	"":              "",
	"root_exit":     ": its root exited",
	"owner_exit":    ": its owner exited",
	"end":           " on request",
	"max_lifetime":  ": max_lifetime reached",
	"max_processes": ": max_processes reached",
	"max_rss":       ": max_rss reached",
	"idle":          ": it was idle",
	"ancestor":      " with the session around it",
	"expired":       ": it was kept until then",
	"halt":          ": the host was halted",
	"released":      ": its processes were released",
	"reboot":        " by a reboot",
	"untracked":     ": it is no longer tracked",
}

// State is the state of a session, and why it ends or has ended.
func State(s *api.Session) string {
	if s.IsPaused() {
		return "paused"
	}
	why, known := causes[s.EndReason]
	if !known {
		why = ": " + strings.ReplaceAll(s.EndReason, "_", " ")
	}
	return Text(string(s.State) + why)
}
