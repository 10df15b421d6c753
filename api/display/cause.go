package display

import (
	"fmt"
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

// Paused says of a paused session whether members run in spite of that: "paused, 2 running, continued by 4242 sh".
func Paused(s *api.Session) string {
	words := "paused"
	if c := s.Continued; c != nil {
		words += fmt.Sprintf(", %d running", c.Running)
		switch {
		case c.By == nil:
		case c.By.Process != nil:
			words += fmt.Sprintf(", continued by %d %s", c.By.Process.PID, c.By.Process.Comm)
		default:
			words += ", continued by " + c.By.Kind
		}
	}
	return Text(words)
}

// State is the state of a session, and why it ends or has ended.
func State(s *api.Session) string {
	if s.IsPaused() {
		return Paused(s)
	}
	why, known := causes[s.EndReason]
	if !known {
		why = ": " + strings.ReplaceAll(s.EndReason, "_", " ")
	}
	return Text(string(s.State) + why)
}

// Living counts the live processes of a session, and those that should be gone.
func Living(s *api.Session) []string {
	parts := []string{fmt.Sprintf("%d live", s.Live)}
	for i, n := range []int{s.Orphans, s.Leftovers, s.Zombies} {
		if what := []string{"orphan", "leftover", "zombie"}[i]; n > 0 {
			parts = append(parts, Count(n, what))
		}
	}
	return parts
}
