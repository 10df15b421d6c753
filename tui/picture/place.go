package picture

import "github.com/lineage-ebpf/lineage/api"

func (p *Picture) home(r *Row) *Row {
	if r.Kind == SessionRow {
		return p.sessionHome(r)
	}
	pr := r.Process
	if pr.Creator != nil {
		// A creator is older than what it created. So no answer of a daemon can make a
		// cycle of rows.
		if c := p.processes[*pr.Creator]; c != nil && c.Process.Session == pr.Session && c.compare(r) < 0 {
			return c
		}
	}
	if s := p.sessions[pr.Session]; s != nil {
		return s
	}
	s := p.newSession(&api.Session{ID: pr.Session})
	p.place(s)
	return s
}

// sessionHome of a nested session is the process that created its root, or the
// session that it is nested in.
func (p *Picture) sessionHome(r *Row) *Row {
	s := r.Session
	if s.Parent == "" || s.Parent == s.ID {
		return p.top
	}
	if s.Root != nil && s.Root.Creator != nil {
		if c := p.processes[*s.Root.Creator]; c != nil && c.up != nil &&
			c.Process.Session == s.Parent && !c.below(r) {
			return c
		}
	}
	if up := p.sessions[s.Parent]; up != nil && up.known && !up.below(r) {
		return up
	}
	return p.top
}

// wants is the creator under whose row r belongs, if that row exists.
func wants(r *Row) api.Ref {
	switch {
	case r.Kind == ProcessRow && r.Process.Creator != nil:
		return *r.Process.Creator
	case r.Kind == SessionRow && r.Session.Parent != "" && r.Session.Root != nil && r.Session.Root.Creator != nil:
		return *r.Session.Root.Creator
	}
	return api.Ref{}
}

// expect makes r, which is under at, wait for its creator if that is another row.
func (p *Picture) expect(r, at *Row) {
	creator := wants(r)
	if at.Kind == ProcessRow && at.Process.Ref == creator {
		creator = api.Ref{}
	}
	p.await(r, creator)
}

// await makes r be placed again when the process creator appears.
func (p *Picture) await(r *Row, creator api.Ref) {
	if r.creator == creator {
		return
	}
	if set := p.waiting[r.creator]; set != nil {
		delete(set, r)
		if len(set) == 0 {
			delete(p.waiting, r.creator)
		}
	}
	r.creator = creator
	if creator == (api.Ref{}) {
		return
	}
	if p.waiting[creator] == nil {
		p.waiting[creator] = map[*Row]bool{}
	}
	p.waiting[creator][r] = true
}

func (p *Picture) place(r *Row) {
	at := p.home(r)
	if r.first != nil && at.below(r) { // a file can contain what no kernel does
		at = p.top
		p.astray = append(p.astray, r)
	}
	p.expect(r, at)
	r.link(at)
}

func (p *Picture) move(r *Row) {
	at := r.up
	if at != nil {
		r.unlink()
	}
	p.place(r)
	if at != nil {
		p.settle(at)
	}
}

// settle removes a session known only from its processes with the last one.
func (p *Picture) settle(r *Row) {
	if !r.gone && r.up != nil && r.Kind == SessionRow && r.first == nil && r.Session.State == "" {
		p.closeRow(r)
	}
}

func (p *Picture) newSession(s *api.Session) *Row {
	r := &Row{Kind: SessionRow, Session: s}
	p.sessions[s.ID] = r
	r.folded = p.folding && p.filter == nil || p.folded[r.Key()]
	if p.sorted {
		r.order = newcomer
	}
	return r
}

// refreshSession updates the row after new data of its session.
func (p *Picture) refreshSession(r *Row) {
	s := r.Session
	start, pid := api.U64(0), int32(0)
	if s.Root != nil {
		start, pid = s.Root.StartNS, int32(s.Root.PID)
	}
	if s.Parent != "" {
		if p.nested[s.Parent] == nil {
			p.nested[s.Parent] = map[*Row]bool{}
		}
		p.nested[s.Parent][r] = true
	}
	if r.up == nil || start != r.start || pid != r.pid || r.rank != r.ranked() || r.up != p.home(r) {
		r.start, r.pid, r.rank = start, pid, r.ranked()
		p.move(r)
	}
	p.expect(r, p.home(r))
	p.rematch(r)
	news := !r.known
	r.known = s.State != ""
	if news && r.known {
		for n := range p.nested[s.ID] {
			if !n.gone {
				p.move(n)
			}
		}
	}
}

// close removes a session. If some of its processes are still in the picture, they keep
// a row for it.
func (p *Picture) close(r *Row) {
	if r.gone {
		return
	}
	if nested := p.nested[r.Session.Parent]; nested != nil {
		delete(nested, r)
		if len(nested) == 0 {
			delete(p.nested, r.Session.Parent)
		}
	}
	for c := r.first; c != nil; {
		next := c.next
		if c.Kind == SessionRow {
			delete(p.sessions, r.Session.ID) // so that its processes get another place
			p.move(c)
			p.sessions[r.Session.ID] = r
		}
		c = next
	}
	if r.first != nil {
		r.Session = &api.Session{ID: r.Session.ID}
		p.refreshSession(r)
		return
	}
	p.closeRow(r)
}

func (p *Picture) closeRow(r *Row) {
	delete(p.sessions, r.Session.ID)
	p.drop(r)
}
