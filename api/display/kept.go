package display

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
)

// Kept says by whom, until when and why a session is kept; "" for other sessions.
func Kept(s *api.Session) string {
	if !s.Kept {
		return ""
	}
	text := "kept"
	if s.Until != nil {
		text += s.Until.Local().Format(" until 2006-01-02 15:04")
	}
	switch {
	case s.KeepRule != "":
		text += " by rule " + Text(s.KeepRule)
	case s.KeptBy != nil:
		text += fmt.Sprintf(" by uid %d", s.KeptBy.UID)
		if s.KeptBy.Comm != "" {
			text += " (" + Text(s.KeptBy.Comm) + ")"
		}
	}
	if s.Reason != "" {
		text += ": " + Text(s.Reason)
	}
	return text
}
