//go:build linux

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// disk is what several daemons in turn have of the history: rows in memory. It can fail, be full, and tear.
type disk struct {
	mu        sync.Mutex
	sessions  map[tracer.SessionID]history.Session
	processes map[lineage.ID]history.Process
	failing   bool // no batch is written, no row is read
	full      bool // of a batch, only sessions are written
	ends      map[tracer.SessionID][]api.Verdict
}

var errDisk = errors.New("the disk failed")

func newDisk() *disk {
	return &disk{
		sessions: make(map[tracer.SessionID]history.Session), processes: make(map[lineage.ID]history.Process),
		ends: make(map[tracer.SessionID][]api.Verdict),
	}
}

// store is one daemon's journal on the disk. The methods that only readers of the history call are missing.
type store struct {
	history.Store
	d      *disk
	killed bool // what it writes is lost
}

func (s *store) Path() string                { return "memory" }
func (s *store) Degraded() []string          { return nil }
func (s *store) Stats() (none history.Stats) { return none }
func (s *store) Due() bool                   { return true }
func (s *store) Check(context.Context) error { return nil }
func (s *store) Close()                      {}

// Write is one transaction.
func (s *store) Write(_ context.Context, b *history.Batch) error {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing || s.killed {
		return errDisk
	}
	for _, id := range b.LetGo {
		delete(d.sessions, id)
		maps.DeleteFunc(d.processes, func(_ lineage.ID, p history.Process) bool { return p.Session == id })
	}
	for i := range b.Sessions {
		x := b.Sessions[i]
		d.sessions[x.ID] = x
		if x.Report != nil && !x.Ended.IsZero() {
			var r api.Report
			if err := json.Unmarshal(x.Report, &r); err != nil {
				return err
			}
			d.ends[x.ID] = append(d.ends[x.ID], r.Verdict)
		}
	}
	for i := range b.Processes {
		if p := b.Processes[i]; !d.full {
			d.processes[lineage.ID{PID: p.PID, Start: p.Start}] = p
		}
	}
	for i := range b.Gone {
		delete(d.processes, lineage.ID{PID: b.Gone[i].PID, Start: b.Gone[i].Start})
	}
	return nil
}

func (s *store) Live(context.Context) (all []history.Session, err error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.failing {
		return nil, errDisk
	}
	for _, id := range slices.Sorted(maps.Keys(s.d.sessions)) {
		if x := s.d.sessions[id]; x.Ended.IsZero() {
			all = append(all, x)
		}
	}
	return all, nil
}

func (s *store) Session(_ context.Context, _ string, id tracer.SessionID) (*history.Session, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if x, found := s.d.sessions[id]; found && !s.d.failing {
		return &x, nil
	}
	return nil, history.ErrUnusable
}

func (s *store) Processes(_ context.Context, _ string, id tracer.SessionID) (all []history.Process, err error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.failing {
		return nil, errDisk
	}
	for _, p := range s.d.processes {
		if p.Session == id {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b history.Process) int { return int(a.PID) - int(b.PID) })
	return all, nil
}

func (s *store) Last(context.Context, string) (time.Time, error) {
	return time.Time{}, history.ErrUnusable
}

// tear loses rows, and cuts others, as a file that was damaged and set aside.
func (d *disk) tear(lose func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) {
		switch x := d.sessions[id]; {
		case lose():
			delete(d.sessions, id)
		case lose() && len(x.State) > 1:
			x.State = x.State[:len(x.State)/2]
			d.sessions[id] = x
		}
	}
}
