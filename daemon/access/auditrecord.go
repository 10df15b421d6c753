//go:build linux

package access

import (
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
)

const (
	// maxProcesses bounds the processes that the report of one record names.
	maxProcesses = 1024
	// maxRecord bounds a record, in bytes. Members choose their command lines and the paths of
	// their locks, and could push all other records out of the log.
	maxRecord = 256 << 10
)

// Decisions of a record.
const (
	AuditDone    = "done"    // it was requested, or happened, and is complete
	AuditRefused = "refused" // nothing was sent
)

// ends reports whether r must be on the disk before anything else is done.
func (r *AuditRecord) ends() bool { return r.Report != nil }

// shorten copies the report into the record, and limits its list.
func (r *AuditRecord) shorten() {
	if r.Report == nil {
		return
	}
	r.whole = r.Report
	short := *r.Report
	n := min(len(short.Processes), maxProcesses)
	short.Truncated = short.Truncated || n < len(short.Processes)
	short.Processes = append([]api.Outcome{}, short.Processes[:n]...)
	short.Delegated = slices.Clone(short.Delegated)
	r.Report = &short
}

// redact removes what a log must not contain: the secrets of command lines.
func (r *AuditRecord) redact(hide func([]string) []string) {
	if r.Report == nil {
		return
	}
	if hide == nil {
		hide = func([]string) []string { return nil }
	}
	r.Report = document.ReadableReport(r.Report, 0, document.Hiding(hide))
}

// lessen leaves out of a report what members can make long.
func (r *AuditRecord) lessen() {
	if r.Report == nil {
		return
	}
	r.redact(nil)
	r.Report.Zombies, r.Report.LocksReleased, r.Report.LocksHeld, r.Report.HoldsUnknown = nil, nil, nil, nil
	r.Report.PortsFreed, r.Report.PortsBusy, r.Report.PortsTimeWait = nil, nil, nil
	r.Report.Truncated = true
}

const (
	maxSingle = 20 // refusals of one kind that are recorded one by one
	sumPeriod = time.Minute
	maxKinds  = 1024
)

// refusals writes the records of refusals. Anyone can cause them, so the first of a
// kind in a minute are recorded one by one and the rest in one record that counts
// them: a flood of refusals does not push other records out of the log.
type refusals struct {
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

// newRefusals gives a writer to an audit log. now is a monotonic clock.
func newRefusals(to func(AuditRecord), now func() time.Duration) *refusals {
	return &refusals{to: to, now: now, kinds: make(map[refusalKind]*refusalCount)}
}

// Add records a refusal, now or in a sum.
func (r *refusals) Add(rec AuditRecord) {
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
func (r *refusals) sum(f *refusalCount) {
	if f.more == 0 {
		return
	}
	f.last.Count = f.more
	r.to(f.last)
}

func (r *refusals) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, f := range r.kinds {
		r.sum(f)
		delete(r.kinds, k)
	}
}
