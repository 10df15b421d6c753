package ending

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
)

// chosen names the live sessions of uid, or of everybody, and says which are spared: those
// that are kept, or have a kept one in them, unless these may end, too. Only the outermost
// is named of sessions in each other: the others end with it.
func chosen(sessions []api.Session, uid int, everybody, mayEndKept bool) (ids, spared []string) {
	within := nesting(sessions)
	ending := map[string]bool{}
	for i := range sessions {
		s := &sessions[i]
		if s.State == api.StateEnded || s.UID != uid && !everybody {
			continue
		}
		kept := within.find(s.ID, func(n *api.Session) bool { return n.Kept })
		switch {
		case s.Kept && !mayEndKept:
			spared = append(spared, fmt.Sprintf("session %s is kept: not ended; --kept ends it, too", s.ID))
		case kept != nil && !mayEndKept:
			spared = append(spared, fmt.Sprintf("session %s: not ended: session %s in it is kept; --kept ends both", s.ID, kept.ID))
		default:
			ending[s.ID] = true
		}
	}
	return outermost(sessions, ending), spared
}

// LeftBehind names the sessions whose root is gone and that may be ended with
// all they hold, and says why others of them may not. only: that one alone.
func LeftBehind(sessions []api.Session, only string) (ids, spared []string) {
	within := nesting(sessions)
	ending := map[string]bool{}
	for _, s := range sessions {
		if s.Leftovers == 0 || s.State != api.StateActive || only != "" && s.ID != only {
			continue
		}
		if s.Kept {
			spared = append(spared, fmt.Sprintf("session %s is kept: not ended", s.ID))
		} else if n := within.find(s.ID, lives); n != nil {
			spared = append(spared, fmt.Sprintf("session %s: not ended: in it is session %s, which is kept or whose root lives; name it to \"lineage end\"", s.ID, n.ID))
		} else {
			ending[s.ID] = true
		}
	}
	return outermost(sessions, ending), spared
}

// outermost names the sessions that end. Those within another one end with that.
func outermost(sessions []api.Session, ending map[string]bool) (ids []string) {
	for _, s := range sessions {
		if ending[s.ID] && !ending[s.Parent] {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// lives reports a session that is not a leftover itself.
func lives(s *api.Session) bool { return s.Kept || s.Live > 0 && s.Leftovers == 0 }

// nested has the sessions directly in each session, by its id.
type nested map[string][]*api.Session

func nesting(sessions []api.Session) nested {
	n := nested{}
	for i := range sessions {
		s := &sessions[i]
		n[s.Parent] = append(n[s.Parent], s)
	}
	return n
}

// deepest is more than the kernel nests.
const deepest = 16

// find gives a session somewhere in the session id for which is holds, or nil.
func (n nested) find(id string, is func(*api.Session) bool) *api.Session {
	return n.below(id, is, 0)
}

func (n nested) below(id string, is func(*api.Session) bool, depth int) *api.Session {
	for _, s := range n[id] {
		if is(s) {
			return s
		}
		if depth < deepest {
			if found := n.below(s.ID, is, depth+1); found != nil {
				return found
			}
		}
	}
	return nil
}
