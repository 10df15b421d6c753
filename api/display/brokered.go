package display

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
)

// Delegated describes work that a member handed to another daemon, and what is known of
// it; session is the session that the work belongs to.
func Delegated(b *api.Delegated, session string) string {
	s := "delegated, unattributed"
	switch {
	case b.Process != nil:
		s = InContainer(fmt.Sprintf("delegated: %d %s", b.Process.PID, Text(b.Process.Comm)),
			b.Process.Container)
		if e := b.Evidence; e != nil {
			s += fmt.Sprintf(", %s(%s), %s", Text(e.Kind), Text(e.Source), Text(e.Confidence))
		}
		if b.Session != session {
			s += ", in session " + Text(b.Session)
		}
		if !b.Ends {
			s += ", not ended with this one"
		}
		if b.Observed {
			s += " (policy: observe)"
		}
	case b.State == "ambiguous":
		s = "delegated, ambiguous"
	case b.State == "pending":
		s = "delegated, not found yet"
	}
	if b.Asked != nil {
		s += fmt.Sprintf(": %d %s asked %s", b.Asked.PID,
			Brief(b.Asked.Argv, b.Asked.Comm, b.Asked.ArgvTruncated, CommandBytes), Text(b.Broker))
		if b.Time != nil {
			s += b.Time.Local().Format(" at 15:04:05")
		}
		if b.Shared() {
			s += ": its shared server is not in this session; use --no-daemon"
		}
	}
	if b.Process != nil && !b.Ends && b.Session != session {
		s += "; to end it: lineage end " + Text(b.Session)
	}
	return s
}
