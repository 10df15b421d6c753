//go:build linux

package access

import (
	"sync"
	"time"
)

const (
	maxSingle = 20 // refusals of one kind that are recorded one by one
	sumPeriod = time.Minute
	maxKinds  = 1024
)

// Refusals writes the records of refusals. Anyone can cause them, so the first of a
// kind in a minute are recorded one by one and the rest in one record that counts
// them: a flood of refusals does not push other records out of the log.
type Refusals struct {
	to  func(AuditRecord)
	now func() time.Duration

	mu    sync.Mutex
	kinds map[refusalKind]*refusalCount
}

// refusalKind is a caller and a verb. All members of a session are one caller.
type refusalKind struct {
	uid    int
	member string
	verb   string
}

type refusalCount struct {
	since time.Duration
	n     int
	last  AuditRecord // of the unrecorded ones
	more  uint64
}

// NewRefusals gives a writer to an audit log. now is a monotonic clock.
func NewRefusals(to func(AuditRecord), now func() time.Duration) *Refusals {
	return &Refusals{to: to, now: now, kinds: make(map[refusalKind]*refusalCount)}
}

// Add records a refusal, now or in a sum.
func (r *Refusals) Add(rec AuditRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for k, f := range r.kinds {
		if now-f.since >= sumPeriod {
			r.sum(f)
			delete(r.kinds, k)
		}
	}
	k := refusalKind{rec.Caller.UID, rec.Caller.Session, rec.Verb}
	f := r.kinds[k]
	if f == nil {
		if len(r.kinds) >= maxKinds {
			k = refusalKind{uid: -1} // all others are one kind
		}
		if f = r.kinds[k]; f == nil {
			f = &refusalCount{since: now}
			r.kinds[k] = f
		}
	}
	if f.n++; f.n <= maxSingle {
		r.to(rec)
		return
	}
	f.last = rec
	f.more++
}

// sum writes one record for the refusals that were not recorded one by one.
func (r *Refusals) sum(f *refusalCount) {
	if f.more == 0 {
		return
	}
	f.last.Count = f.more
	r.to(f.last)
}

// Flush writes the pending sums.
func (r *Refusals) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, f := range r.kinds {
		r.sum(f)
		delete(r.kinds, k)
	}
}
