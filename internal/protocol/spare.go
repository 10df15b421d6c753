package protocol

func init() {
	type x = *run
	tell([]stepRow{
		{strikeSender, rChild, "reads its own entry, as it sends SIGKILL", x.strikeSender},
		{strikeReceiver, rChild | rFrom | rMoved | rTook, "looks whether the receiver is spared", x.strikeReceiver},
	})
}

// strikeSender is the look at the sender in crosses() of guard.h.
func (x *run) strikeSender() {
	c, s, k := x.c, x.s, x.side()
	if i := s.entered(k, c.task); i != none {
		c.from = k.entries[i].session
		c.moved = c.from != 0 && k.sessions[c.from].root == c.task
	}
	c.took, c.at = uint8(s.must[c.task]), strikeReceiver
}

// strikeReceiver is spared_from(): each session of the machine spares its root. What is not refused kills.
func (x *run) strikeReceiver() {
	c, s, k := x.c, x.s, x.side()
	to, id, refused := c.child, uint8(0), false
	if i := s.entered(k, to); i != none {
		id = k.entries[i].session
	}
	if id != 0 && c.from != 0 {
		inside := s.within(k, c.from, id) && !x.off(SpareInside) || c.from == id
		equal := c.moved && (c.from == id || x.off(SpareEqual))
		refused = k.sessions[id].root == to && k.sessions[id].state != dissolved && inside && !equal
	}
	spared := s.truths[id].root == to && to != c.task && !s.truths[id].dissolved
	// It was and is a member: a signal may come before it is one.
	member := uint64(c.took)&s.must[c.task]&(1<<id) != 0
	switch {
	case refused && (!spared || s.may[c.task]&(1<<id) == 0):
		x.bad = "a signal is refused only to a root, and from a member"
	case refused || !s.tasks[to].alive():
	case spared && member && s.must[to]&(1<<id) != 0:
		x.bad = "a session's root is spared from its members"
	default:
		s.tasks[to].killed, s.tasks[to].dumping = true, false
	}
	x.rest()
}
