//go:build linux

package daemon

import (
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/audit"
)

const (
	refusalsAtOnce = 20 // of one kind that are recorded one by one
	refusalsPeriod = time.Minute
	refusalsKinds  = 1024 // that are told apart
)

// refusals writes the records of refusals. Anybody can cause them, so the first
// of a kind in a minute are recorded one by one and the rest in one record that
// counts them: nobody pushes what others did out of the log.
type refusals struct {
	log auditLog
	now func() time.Duration

	mu    sync.Mutex
	kinds map[refusalKind]*refused
}

// refusalKind is who was refused what. Members of one session are one.
type refusalKind struct {
	uid    int
	member string
	verb   string
}

type refused struct {
	since time.Duration
	n     int
	last  audit.Record // of those that are not recorded yet
	more  uint64
}

func newRefusals(log auditLog, now func() time.Duration) *refusals {
	return &refusals{log: log, now: now, kinds: make(map[refusalKind]*refused)}
}

func (r *refusals) add(rec audit.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for k, f := range r.kinds {
		if now-f.since >= refusalsPeriod {
			r.sum(f)
			delete(r.kinds, k)
		}
	}
	k := refusalKind{rec.Caller.UID, rec.Caller.Session, rec.Verb}
	f := r.kinds[k]
	if f == nil {
		if len(r.kinds) >= refusalsKinds {
			k = refusalKind{uid: -1} // the rest is one kind
		}
		if f = r.kinds[k]; f == nil {
			f = &refused{since: now}
			r.kinds[k] = f
		}
	}
	if f.n++; f.n <= refusalsAtOnce {
		r.log.Add(rec)
		return
	}
	f.last = rec
	f.more++
}

// sum writes what was not recorded one by one.
func (r *refusals) sum(f *refused) {
	if f.more == 0 {
		return
	}
	f.last.Count = f.more
	r.log.Add(f.last)
}

// flush writes what waits.
func (r *refusals) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, f := range r.kinds {
		r.sum(f)
		delete(r.kinds, k)
	}
}
