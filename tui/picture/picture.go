package picture

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// Picture has every session and process that the daemon shows.
type Picture struct {
	top       *Row
	processes map[api.Ref]*Row
	sessions  map[string]*Row
	// waiting are the rows that are not under their creator, because it is not in the
	// picture, or in another session.
	waiting map[api.Ref]map[*Row]bool
	nested  map[string]map[*Row]bool // sessions by the session that they are nested in
	folded  map[Key]bool             // rows that the reader has folded
	folding bool                     // all sessions are folded, also new ones
	held    *Row
	astray  []*Row // rows without a place while others were being moved
	filter  *Filter
	now     api.U64 // boottime
	sorted  bool    // the reader has sorted the sessions
	// listening has the processes that are known to listen on ports.
	listening map[api.Ref][]int
	dropped   func(*Row) // is called for a row that is about to be removed
}

func New() *Picture {
	return &Picture{
		top: &Row{Kind: topRow}, processes: map[api.Ref]*Row{}, sessions: map[string]*Row{},
		waiting: map[api.Ref]map[*Row]bool{}, nested: map[string]map[*Row]bool{},
		folded:  map[Key]bool{},
		dropped: func(*Row) {},
	}
}

func (p *Picture) Process(ref api.Ref) *Row { return p.processes[ref] }

func (p *Picture) Session(id string) *Row { return p.sessions[id] }

// All calls each for every process, in no order.
func (p *Picture) All(each func(*Row)) {
	for _, r := range p.processes {
		each(r)
	}
}

// AllSessions calls each for every session, in no order.
func (p *Picture) AllSessions(each func(*Row)) {
	for _, r := range p.sessions {
		each(r)
	}
}

func (p *Picture) Apply(b *Batch) {
	p.now = max(p.now, b.TimeNS)
	remove, closed := p.leaving(b)
	var sessions, fresh, changed []*Row
	for id, s := range b.Sessions {
		r := p.sessions[id]
		if r == nil {
			r = p.newSession(s)
		}
		r.Session = s
		r.usage.note(s.CPUSeconds, b.TimeNS)
		sessions = append(sessions, r)
	}
	for ref, pr := range b.Upsert {
		if r := p.processes[ref]; r != nil {
			moved := r.Process.Session != pr.Session
			r.Process = pr
			r.usage.note(pr.CPUSeconds, b.TimeNS)
			p.countLive(r)
			if moved {
				changed = append(changed, p.dependants(r)...)
			}
			changed = append(changed, r)
			continue
		}
		r := &Row{Kind: ProcessRow, Process: pr, start: pr.StartNS, pid: int32(ref.PID), size: 1}
		r.usage.note(pr.CPUSeconds, b.TimeNS)
		r.Ports = p.listening[ref]
		p.countLive(r)
		p.processes[ref] = r
		fresh = append(fresh, r)
	}
	for _, r := range remove {
		p.remove(r)
	}
	slices.SortFunc(sessions, (*Row).compare)
	for _, r := range sessions {
		p.refreshSession(r)
	}
	slices.SortFunc(fresh, (*Row).compare)
	for _, r := range fresh {
		p.add(r)
	}
	// A session that is no longer under a process is moved before the process, or the
	// process could not go under it; a session that can be under it now is moved after it.
	slices.SortFunc(changed, younger)
	p.refreshKind(changed, SessionRow)
	p.refreshKind(changed, ProcessRow)
	p.refreshKind(append(changed, sessions...), SessionRow)
	for _, r := range closed {
		p.close(r)
	}
	astray := p.astray
	p.astray = nil
	for _, r := range astray {
		if !r.gone {
			p.move(r)
		}
	}
}

// leaving returns the rows that b removes, the youngest first: what they created is
// removed before them.
func (p *Picture) leaving(b *Batch) (processes, sessions []*Row) {
	if b.Reset {
		for ref, r := range p.processes {
			if b.Upsert[ref] == nil {
				processes = append(processes, r)
			}
		}
		for id, r := range p.sessions {
			if b.Sessions[id] == nil {
				sessions = append(sessions, r)
			}
		}
	}
	for ref := range b.Remove {
		if r := p.processes[ref]; r != nil {
			processes = append(processes, r)
		}
	}
	for id := range b.Closed {
		if r := p.sessions[id]; r != nil {
			sessions = append(sessions, r)
		}
	}
	slices.SortFunc(processes, younger)
	slices.SortFunc(sessions, younger)
	return processes, sessions
}

func younger(a, b *Row) int { return b.compare(a) }

// dependants are the rows whose place depends on the session of r.
func (p *Picture) dependants(r *Row) (rows []*Row) {
	for c := r.first; c != nil; c = c.next {
		rows = append(rows, c)
	}
	for w := range p.waiting[r.Process.Ref] {
		rows = append(rows, w)
	}
	return rows
}

func (p *Picture) add(r *Row) {
	r.folded = p.folded[r.Key()]
	p.rematch(r)
	p.place(r)
	for w := range p.waiting[r.Process.Ref] {
		p.move(w)
	}
}

func (p *Picture) refreshKind(rows []*Row, k Kind) {
	for _, r := range rows {
		switch {
		case r.gone || r.Kind != k:
		case k == SessionRow:
			p.refreshSession(r)
		default:
			p.refresh(r)
		}
	}
}

// refresh updates the row after new data of its process.
func (p *Picture) refresh(r *Row) {
	if r.up != p.home(r) {
		p.move(r)
	} else {
		p.expect(r, r.up)
	}
	p.rematch(r)
}

// remove removes a process. Rows that it created move to where they would be if the
// creator had never been seen.
func (p *Picture) remove(r *Row) {
	delete(p.processes, r.Process.Ref)
	for r.first != nil {
		p.move(r.first)
	}
	p.drop(r)
}

func (p *Picture) drop(r *Row) {
	p.dropped(r)
	r.gone = true
	if p.held == r {
		p.held = nil
	}
	p.await(r, api.Ref{})
	at := r.up
	r.unlink()
	p.settle(at)
}

// Hold counts r as live until another row is held: a row that the reader looks at stays when
// it exits.
func (p *Picture) Hold(r *Row) {
	old := p.held
	p.held = r
	p.countLive(r)
	p.countLive(old)
}

func (p *Picture) countLive(r *Row) {
	if r == nil || r.gone {
		return
	}
	if live := r == p.held || r.Kind == ProcessRow && !r.exited(); live != r.counted {
		r.counted = live
		r.add(0, map[bool]int32{true: 1, false: -1}[live], 0)
	}
}

func (p *Picture) Fold(r *Row, folded bool) {
	if r.folded == folded || r.Kind == topRow {
		return
	}
	if r.folded = folded; folded {
		p.folded[r.Key()] = true
	} else {
		delete(p.folded, r.Key())
	}
}

func (p *Picture) foldSessions(folded bool) {
	for _, r := range p.sessions {
		r.folded = folded
		delete(p.folded, r.Key())
	}
}

// Degraded lists what does not work for sessions, with their ids.
func (p *Picture) Degraded() (all []string) {
	for id, r := range p.sessions {
		for _, d := range r.Session.Degraded {
			all = append(all, "session "+id+": "+d)
		}
	}
	slices.Sort(all)
	return all
}
