package lineage

// Needed reports whether a process is present, or a remembered ancestor of a present
// one.
func (g *Graph) Needed(id ID) bool {
	n := g.index.find(id)
	return n != nil && n.held && n.known
}

// Shorten leaves out the command that a process had of its creator before its first exec. Restore takes it
// from the creator, which is in the same session, and kept longer than what it created.
func (n *Node) Shorten() {
	c := n.Commands
	if n.Evidence == Fork && n.Under == n.Creator && len(c) > 1 && c[0].Time == n.ID.Start &&
		c[1].Time != n.ID.Start {
		n.Commands = c[1:]
	}
}

// Restore adds what another graph knew of a process, as if its events came again: in
// any order, more than once, before or after the real ones. What n says of a live
// process may be outdated; a snapshot updates it.
func (g *Graph) Restore(n *Node) {
	if !n.ID.names() || n.Ghost {
		return
	}
	birth := Event{
		Type: Birth, Time: n.ID.Start, ID: n.ID, Session: n.Session, Evidence: n.Evidence, Source: n.Source,
		Creator: n.Creator, Parent: n.Parent, Looks: n.Looks,
		Claim: n.Claim,
	}
	if len(n.Reparents) > 0 {
		birth.Parent = n.Reparents[0].From
	}
	switch {
	case len(n.Commands) == 0:
	case n.Commands[0].Time == n.ID.Start:
		birth.Comm = CommOf(n.Commands[0].Comm)
	default:
		birth.Comm = Comm{} // its creator's
	}
	g.Apply(&birth)
	if n.Container != nil {
		g.Contain(n.ID, n.Container)
	}
	for i := range n.Commands {
		c := &n.Commands[i]
		if m := g.index.find(n.ID); i == 0 && c.Time == n.ID.Start && m != nil && m.inherited != nil {
			continue // its creator is known and gives the same command
		}
		ran := Event{
			Type: Exec, Time: c.Time, ID: n.ID, Session: n.Session, Looks: n.Looks,
			Exe: []byte(c.Exe), Argv: join(c.Argv), ArgvTruncated: c.ArgvTruncated,
		}
		ran.Comm = CommOf(c.Comm)
		g.Apply(&ran)
	}
	for _, m := range n.Reparents {
		g.Apply(&Event{Type: Reparent, Time: m.Time, ID: n.ID, From: m.From, Parent: m.To})
	}
	switch {
	case n.StatusKnown:
		g.Apply(&Event{
			Type: Exit, Time: n.Exited, ID: n.ID, Session: n.Session,
			Status: n.Status, Flags: n.Flags, CPUTime: n.CPUTime, MaxRSS: n.MaxRSS, Signal: n.Signal,
			After: After{StatusKnown: true},
		})
		if n.State == Exited {
			g.Apply(&Event{Type: Reaped, Time: n.Exited, ID: n.ID})
		}
	case n.State.over():
		g.Apply(&Event{Type: Reaped, Time: n.Exited, ID: n.ID})
	case n.Signal != nil:
		g.Apply(&Event{Type: Stop, Time: n.Signal.Time, ID: n.ID, Signal: n.Signal})
	}
	if m := g.index.find(n.ID); m != nil {
		m.Comm = n.Comm // it may have changed without an exec
	}
}
