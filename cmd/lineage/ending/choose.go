package ending

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
)

// chosen selects the live sessions of uid, or of all users, and says which are spared:
// kept sessions, and sessions with a kept one inside. Only those are selected whose root is where it
// says. If idle is not nil, only these are selected, and none with another one inside. Of nested
// sessions only the outermost is named: the others end with it.
func chosen(sessions []api.Session, uid int, everybody bool, where Where, idle map[string]bool) (ids, spared []string) {
	within := nesting(sessions)
	ending := map[string]bool{}
	for i := range sessions {
		s := &sessions[i]
		if s.State == api.StateEnded || s.UID != uid && !everybody || !where.Holds(s.Container) || idle != nil && !idle[s.ID] {
			continue
		}
		busy := within.find(s.ID, func(n *api.Session) bool { return idle != nil && !idle[n.ID] })
		kept := within.find(s.ID, func(n *api.Session) bool { return n.Kept })
		switch {
		case busy != nil:
			spared = append(spared, fmt.Sprintf("session %s is not ended: it contains session %s, which is not idle", s.ID, busy.ID))
		case s.Kept:
			spared = append(spared, fmt.Sprintf("session %s is kept and not ended; \"lineage end %[1]s\" ends it", s.ID))
		case kept != nil:
			spared = append(spared, fmt.Sprintf("session %s is not ended: it contains session %s, which is kept; \"lineage end %[1]s\" ends both", s.ID, kept.ID))
		default:
			ending[s.ID] = true
		}
	}
	return outermost(sessions, ending), spared
}

// leftBehind names the sessions whose root is gone and that may be ended with everything
// in them, and says why other such sessions are spared. only, if not empty: these sessions.
func leftBehind(sessions []api.Session, only map[string]bool) (ids, spared []string) {
	within := nesting(sessions)
	ending := map[string]bool{}
	for _, s := range sessions {
		if s.Leftovers == 0 || s.State != api.StateActive || len(only) > 0 && !only[s.ID] {
			continue
		}
		if s.Kept {
			spared = append(spared, fmt.Sprintf("session %s is kept and not ended", s.ID))
		} else if n := within.find(s.ID, lives); n != nil {
			spared = append(spared, fmt.Sprintf("session %s is not ended: it contains session %s, which is kept or has a live root; \"lineage end %[1]s\" ends both", s.ID, n.ID))
		} else {
			ending[s.ID] = true
		}
	}
	return outermost(sessions, ending), spared
}

// outermost names the sessions that end. A session inside another one ends with it.
func outermost(sessions []api.Session, ending map[string]bool) (ids []string) {
	for _, s := range sessions {
		if ending[s.ID] && !ending[s.Parent] {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// lives reports whether a session is kept, or its root is alive.
func lives(s *api.Session) bool { return s.Kept || s.Live > 0 && s.Leftovers == 0 }

// nested maps a session's id to the sessions directly inside it.
type nested map[string][]*api.Session

func nesting(sessions []api.Session) nested {
	n := nested{}
	for i := range sessions {
		s := &sessions[i]
		n[s.Parent] = append(n[s.Parent], s)
	}
	return n
}

// find returns a session at any depth inside the session id for which is reports true, or nil.
func (n nested) find(id string, is func(*api.Session) bool) *api.Session {
	for _, s := range n[id] {
		if is(s) {
			return s
		}
		if found := n.find(s.ID, is); found != nil {
			return found
		}
	}
	return nil
}
