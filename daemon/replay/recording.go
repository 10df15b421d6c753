package replay

import (
	"maps"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/past"
)

// recording is the state after the lines that were read up to now.
type recording struct {
	processes past.Processes
	sessions  map[string]*api.Session
	now       api.U64   // boottime of the last event
	wall      time.Time // the same
	forks     uint64
	lost      uint64
	rev       uint64 // grows with each line
	revs      map[api.Ref]uint64
	listening map[string]map[int]int // how many sockets a session has, by port
}

func newRecording() *recording {
	return &recording{
		processes: past.Processes{}, sessions: map[string]*api.Session{}, revs: map[api.Ref]uint64{},
		listening: map[string]map[int]int{},
	}
}

func (r *recording) apply(ev *api.Event) {
	r.rev++
	r.now = max(r.now, ev.TimeNS)
	if ev.Time != nil && ev.Time.After(r.wall) {
		r.wall = *ev.Time
	}
	switch {
	case ev.Type == api.EventLost:
		r.lost += ev.Count
		return
	case ev.Type == api.EventSession && ev.Session != "":
		past.Advance(r.session(ev.Session), ev)
		return
	case ev.Type == api.EventListen || ev.Type == api.EventUnlisten:
		r.listens(ev)
		return
	case ev.Process == nil:
		return
	}
	p := r.processes.Apply(ev)
	r.revs[p.Ref] = r.rev
	if ev.Type == api.EventFork {
		r.forks++
	}
	if p.Session != "" {
		s := r.session(p.Session)
		if e := p.Evidence; s.Root == nil && e != nil && (e.Kind == "root" || e.Kind == "adopted") {
			s.Root, s.Evidence, s.Started = p, e.Kind, p.Started
			if p.UID != nil {
				s.UID = *p.UID
			}
		}
	}
}

// listens notes a port. Its process may be dead and forgotten.
func (r *recording) listens(ev *api.Event) {
	if ev.Port == nil || ev.Port.Port == 0 || ev.Session == "" {
		return
	}
	ports := r.listening[ev.Session]
	if ports == nil {
		ports = map[int]int{}
		r.listening[ev.Session] = ports
	}
	n := ports[ev.Port.Port] + 1
	if ev.Type == api.EventUnlisten {
		n -= 2
	}
	if ports[ev.Port.Port] = n; n <= 0 {
		delete(ports, ev.Port.Port)
	}
	r.session(ev.Session).Ports = slices.Sorted(maps.Keys(ports))
}

func (r *recording) session(id string) *api.Session {
	s, ok := r.sessions[id]
	if !ok {
		s = &api.Session{Head: api.Head{Kind: "session"}, ID: id, State: api.StateActive}
		r.sessions[id] = s
	}
	return s
}

// process is p as it is shown, in a copy.
func (r *recording) process(p *api.Process) api.Process {
	shown := *p
	shown.Head = api.Head{}
	creator := r.processes.Creator(p)
	shown.Orphan = p.State == api.StateLive && (p.Orphan || creator != nil && creator.State != api.StateLive)
	return shown
}

// trees puts the processes under their creators, in start order.
func (r *recording) trees() []api.Tree {
	sorted := r.processes.Sorted()
	children := map[api.Ref][]api.Ref{}
	roots := map[string][]api.Ref{}
	for _, p := range sorted {
		creator := r.processes.Creator(p)
		if creator == nil || creator.Session != p.Session {
			roots[p.Session] = append(roots[p.Session], p.Ref)
		} else {
			children[creator.Ref] = append(children[creator.Ref], p.Ref)
		}
	}
	trees := []api.Tree{}
	byID := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(r.sessions)) {
		s := *r.sessions[id]
		byID[id] = len(trees)
		trees = append(trees, api.Tree{Session: &s, Roots: roots[id], Nodes: []api.Node{}})
	}
	for _, p := range sorted {
		i, ok := byID[p.Session]
		if !ok {
			continue // in no session: the snapshot was one of the whole host
		}
		t := &trees[i]
		t.Nodes = append(t.Nodes, api.Node{Process: r.process(p), Children: children[p.Ref]})
		n := &t.Nodes[len(t.Nodes)-1].Process
		switch {
		case n.State == api.StateZombie:
			t.Session.Zombies++
		case n.State == api.StateLive:
			t.Session.Live++
			if n.Orphan {
				t.Session.Orphans++
			}
		}
	}
	for i := range trees {
		if s := trees[i].Session; s.Root != nil {
			root := r.process(s.Root)
			s.Root = &root
		}
	}
	return trees
}

// picture has the processes of a live view: those that live or exited within
// memory, and their ancestors.
func (r *recording) picture(memory time.Duration) map[api.Ref]bool {
	in := map[api.Ref]bool{}
	for _, p := range r.processes {
		if p.State == api.StateExited && (p.Exited == nil || r.wall.Sub(*p.Exited) >= memory) {
			continue
		}
		// A loop of creators, which no kernel makes, ends where it began.
		for ; p != nil && p.Session != "" && !in[p.Ref]; p = r.processes.Creator(p) {
			in[p.Ref] = true
		}
	}
	return in
}

// find gives a process by its identity, or the youngest that had a PID.
func (r *recording) find(ref api.Ref) (found *api.Process) {
	if ref.StartNS != 0 {
		return r.processes[ref]
	}
	for have, p := range r.processes {
		if have.PID == ref.PID && (found == nil || have.StartNS > found.StartNS) {
			found = p
		}
	}
	return found
}

// edges are the steps from a process to the root of its session.
func (r *recording) edges(ref api.Ref) (all []api.Edge) {
	seen := map[api.Ref]bool{}
	for p := r.processes[ref]; p != nil && p.Session != "" && !seen[p.Ref]; p = r.processes.Creator(p) {
		seen[p.Ref] = true
		e := api.Edge{Child: r.process(p), Kind: "fork", Time: p.Started}
		if p.Evidence != nil {
			e.Evidence = *p.Evidence
		}
		switch e.Evidence.Kind {
		case "root", "adopted":
			e.Kind = e.Evidence.Kind
		}
		if p.Creator != nil {
			e.Creator = &api.EdgeEnd{Ref: *p.Creator}
			if c := r.processes.Creator(p); c != nil {
				e.Creator.Comm, e.Creator.Argv, e.Creator.Alive, e.Creator.Exited = c.Comm, c.Argv, c.State == api.StateLive, c.Exited
			}
		}
		all = append(all, e)
		if e.Kind == "root" {
			break
		}
	}
	return all
}
