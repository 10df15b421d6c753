//go:build linux

package apitest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// Picture is the state of a client after some lines.
type Picture struct {
	Processes map[api.Ref]api.Process
	Sessions  map[string]api.Session
	Status    api.WatchStatus
}

// NewPicture makes an empty one.
func NewPicture() *Picture {
	return &Picture{Processes: map[api.Ref]api.Process{}, Sessions: map[string]api.Session{}}
}

// Apply applies a line.
func (p *Picture) Apply(f *api.Frame) {
	if f.Kind == "snapshot" {
		*p = *NewPicture()
	}
	for _, r := range f.Remove {
		delete(p.Processes, r)
	}
	for _, id := range f.Closed {
		delete(p.Sessions, id)
	}
	for _, u := range f.Upsert {
		p.Processes[u.Ref] = u
	}
	for _, s := range f.Sessions {
		p.Sessions[s.ID] = s
	}
	if f.Status != nil {
		p.Status = *f.Status
	}
}

func (p *Picture) String() string {
	all := struct {
		Processes []api.Process
		Sessions  []api.Session
		Status    api.WatchStatus
	}{Status: p.Status}
	for _, r := range slices.SortedFunc(maps.Keys(p.Processes), func(a, b api.Ref) int { return a.PID - b.PID }) {
		all.Processes = append(all.Processes, p.Processes[r])
	}
	for _, id := range slices.Sorted(maps.Keys(p.Sessions)) {
		all.Sessions = append(all.Sessions, p.Sessions[id])
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		panic(err)
	}
	return string(b)
}

// PIDs are those of its processes.
func (p *Picture) PIDs() []int {
	pids := []int{}
	for r := range p.Processes {
		pids = append(pids, r.PID)
	}
	slices.Sort(pids)
	return pids
}
