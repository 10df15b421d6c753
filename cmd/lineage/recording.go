package main

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// errNoRecording is a file that `lineage events -o jsonl --snapshot` did not
// write.
var errNoRecording = errors.New(`not a recording; make one with "lineage events -o jsonl --snapshot > FILE"`)

// readRecording builds the trees of the sessions of a recording, as they were
// when it stopped, every process that it knows included. A recording that was
// interrupted in the middle of a line gives its trees and
// io.ErrUnexpectedEOF.
func readRecording(r io.Reader) ([]api.Tree, error) {
	rec := recording{processes: map[api.Ref]*api.Process{}, sessions: map[string]*api.Session{}}
	first := true
	err := api.ReadEvents(r, func(ev *api.Event) error {
		if first && ev.Kind != "recording" {
			return errNoRecording
		}
		first = false
		rec.apply(ev)
		return nil
	})
	switch {
	case first:
		return nil, errNoRecording
	case err == nil, errors.Is(err, api.ErrNoEnd): // recordings are stopped, not ended
		return rec.trees(), nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return rec.trees(), io.ErrUnexpectedEOF
	}
	return nil, err
}

type recording struct {
	processes map[api.Ref]*api.Process
	sessions  map[string]*api.Session
}

func (r *recording) apply(ev *api.Event) {
	if ev.Type == "session" && ev.Session != "" {
		s := r.session(ev.Session)
		s.State, s.EndReason = ev.State, or(ev.Reason, s.EndReason)
		return
	}
	if ev.Process == nil {
		return
	}
	p, known := r.processes[ev.Process.Ref]
	if !known {
		p = new(*ev.Process)
		p.State = or(p.State, "live")
		r.processes[p.Ref] = p
	}
	p.Session = or(ev.Process.Session, or(p.Session, ev.Session))
	if p.Session != "" {
		r.session(p.Session)
	}
	switch ev.Type {
	case "fork":
		// Until it execs, a process is what its creator was.
		if c := r.creator(p); c != nil && p.Argv == nil && p.Comm == c.Comm {
			p.Argv, p.ArgvTruncated = c.Argv, c.ArgvTruncated
		}
	case "exec":
		p.Comm, p.Exe = or(ev.Process.Comm, p.Comm), or(ev.Process.Exe, p.Exe)
		p.Argv, p.ArgvTruncated = ev.Process.Argv, ev.Process.ArgvTruncated
	case "exit":
		p.State, p.Exited = or(ev.Process.State, "exited"), ev.Time
		p.ExitCode, p.Signal = ev.Process.ExitCode, ev.Process.Signal
	case "reparent":
		p.Parent = ev.To
	case "reaped":
		p.State = "exited"
	}
}

func (r *recording) session(id string) *api.Session {
	s, ok := r.sessions[id]
	if !ok {
		s = &api.Session{Head: api.Head{Kind: "session"}, ID: id, State: "active"}
		r.sessions[id] = s
	}
	return s
}

// trees puts the processes under their creators, in start order.
func (r *recording) trees() []api.Tree {
	byStart := func(a, b api.Ref) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.PID, b.PID))
	}
	var refs []api.Ref
	children := map[api.Ref][]api.Ref{}
	roots := map[string][]api.Ref{}
	for ref := range r.processes {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, byStart)
	for _, ref := range refs {
		p := r.processes[ref]
		creator := r.creator(p)
		if creator == nil || creator.Session != p.Session {
			roots[p.Session] = append(roots[p.Session], ref)
		} else {
			children[creator.Ref] = append(children[creator.Ref], ref)
		}
		p.Orphan = p.State == "live" && (p.Orphan || creator != nil && creator.State != "live")
	}
	trees := []api.Tree{}
	byID := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(r.sessions)) {
		byID[id] = len(trees)
		trees = append(trees, api.Tree{Session: r.sessions[id], Roots: roots[id], Nodes: []api.Node{}})
	}
	for _, ref := range refs {
		p := r.processes[ref]
		i, ok := byID[p.Session]
		if !ok {
			continue // of no session: the snapshot was one of the whole host
		}
		t := &trees[i]
		p.Head = api.Head{}
		t.Nodes = append(t.Nodes, api.Node{Process: *p, Children: children[ref]})
		tally(t.Session, p)
	}
	return trees
}

// creator gives the process that created p, if the recording knows it.
func (r *recording) creator(p *api.Process) *api.Process {
	if p.Creator == nil || *p.Creator == p.Ref {
		return nil
	}
	return r.processes[*p.Creator]
}

func tally(s *api.Session, p *api.Process) {
	if e := p.Evidence; s.Root == nil && e != nil && (e.Kind == "root" || e.Kind == "adopted") {
		s.Root, s.Evidence = p, e.Kind
	}
	switch {
	case p.State == "zombie":
		s.Zombies++
	case p.State == "live":
		s.Live++
		if p.Orphan {
			s.Orphans++
		}
	}
}
