package tracer

// Guard is whether signals of a session's members that kill or stop stay inside.
type Guard uint8

// The guards of a session.
const (
	GuardDefault Guard = iota // as [Guarding].All says
	GuardOn
	GuardOff
)

// Spare is what happens to signals that kill or stop the root of a session, or an agent ([Tracer.SetCall]) in
// it, if another member of that session or of one inside sends them.
type Spare uint8

const (
	SpareNone   Spare = iota
	SpareRecord       // each is an [EventCrossing]
	SpareRefuse       // and it is refused, if [Features].RefusesSignals says so
)

// Protection is from whom, and whom, a session protects.
type Protection struct {
	Guard Guard // overrules [Guarding].All
	Spare Spare
}

type Guarding struct {
	All    bool // each one, unless its [SessionSpec] says otherwise, or it is a companion
	Some   bool // there may be sessions with GuardOn
	Refuse bool // signals that leave a guarded session are refused, where the kernel allows that
}

// Guarded reports whether it is a boundary for its members' signals. all: [Guarding].All.
func (s *SessionInfo) Guarded(all bool) bool {
	switch {
	case s.State == StateDissolved:
		return false
	case s.Guard != GuardDefault:
		return s.Guard == GuardOn
	}
	return all && !(s.Agent && s.Rule == 0) // no rule may want it
}

// Crossing is a signal that kills or stops, from a member to a process outside of its guarded
// session, or to one that is spared.
type Crossing struct {
	Signal  uint8
	Refused bool // it was not sent
	To      Identity
	Session SessionID // of To; 0: none
	UID     uint32    // of To, effective
	Comm    string    // of To, which chooses it: any bytes
}
