//go:build linux

package stream

import (
	"cmp"
	"reflect"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	viewMemory   = 30 * time.Second // how long a process stays after its exit, a session after its end
	viewExited   = 4096             // exited processes that stay that long; the oldest go first
	viewRemovals = 16384            // that are remembered; a reader that is further behind starts again
)

// view is the live picture, one for all readers: live and recently exited processes, zombies, and their ancestors. Each
// change has a revision and a place in one log; a reader is a number in it. The registry's goroutine does not take the
// lock, so it never waits for a reader.
type view struct {
	mu        sync.RWMutex
	time      uint64 // boottime of the picture
	rev       uint64
	floor     uint64 // removals up to this revision are not in the log
	log       []item // by revision
	size      int    // processes and sessions in the picture
	procs     map[lineage.ID]*shownProcess
	sessions  map[tracer.SessionID]*shownSession
	status    api.WatchStatus
	statusRev uint64          // revision of status
	exited    []leaver        // the one that is due first comes first
	ended     []*shownSession // lately
	wake      chan struct{}   // closed with the next revision
}

// item is a change: of a process, of a session, or of the status if it is of neither.
// Only the newest item of each counts.
type item struct {
	rev     uint64
	process *shownProcess
	session *shownSession
	gone    *access.Scope // a removal: readers that could see it
	added   uint64        // … and since when it was there
}

// shownProcess is a process that the graph knows, in the picture or not.
type shownProcess struct {
	ref     api.Ref
	known   bool // the graph has it; otherwise it is only the creator of another
	doc     api.Process
	scope   *access.Scope // nil: of no session
	present bool
	recent  bool   // exited lately
	due     uint64 // boottime at which it is no longer recent
	under   *shownProcess
	below   int // in the picture

	in         bool
	rev, added uint64
}

type shownSession struct {
	id         tracer.SessionID
	doc        api.Session
	scope      *access.Scope
	due        uint64 // boottime at which it leaves, 0: it has not ended
	in         bool
	rev, added uint64
}

// leaver leaves the picture at a time, if it is still due then.
type leaver struct {
	due     uint64
	process *shownProcess
}

func (l leaver) compare(due uint64) int { return cmp.Compare(l.due, due) }

func newView() *view {
	return &view{wake: make(chan struct{}), procs: make(map[lineage.ID]*shownProcess),
		sessions: make(map[tracer.SessionID]*shownSession)}
}

type update struct {
	id      lineage.ID
	under   lineage.ID
	doc     api.Process // with its argv: each reader gets what it may read
	scope   *access.Scope
	present bool
	exited  uint64 // boottime, 0: not, or not known
}

type batch struct {
	time     uint64
	whole    bool // everything before is invalid
	updates  []update
	forgot   []lineage.ID
	sessions []shownSession
	closed   []tracer.SessionID
	status   api.WatchStatus
	more     bool
}

// publish applies changes to the picture and wakes the readers.
func (v *view) publish(b *batch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.rev
	v.time = b.time
	if b.whole {
		v.restart()
	}
	for i := range b.sessions {
		v.session(&b.sessions[i])
	}
	for _, id := range b.closed {
		v.close(v.sessions[id])
		delete(v.sessions, id)
	}
	for _, id := range b.forgot {
		v.forget(id)
	}
	for i := range b.updates {
		v.update(&b.updates[i])
	}
	v.expire()
	if !reflect.DeepEqual(v.status, b.status) {
		v.status = b.status
		v.statusRev = v.add(item{})
	}
	v.compact()
	if v.rev != before {
		close(v.wake)
		v.wake = make(chan struct{})
	}
}

// restart empties the picture. Every reader starts again.
func (v *view) restart() {
	v.log, v.size, v.exited, v.ended = nil, 0, nil, nil
	v.rev++
	v.floor = v.rev
	clear(v.procs)
	clear(v.sessions)
	v.statusRev = v.add(item{})
}

func (v *view) add(it item) uint64 {
	v.rev++
	it.rev = v.rev
	v.log = append(v.log, it)
	return v.rev
}

func (v *view) get(id lineage.ID) *shownProcess {
	p := v.procs[id]
	if p == nil {
		p = &shownProcess{ref: document.Ref(id)}
		v.procs[id] = p
	}
	return p
}

func (v *view) update(u *update) {
	p := v.get(u.id)
	if u.under.PID == 0 {
		v.hang(p, nil)
	} else {
		v.hang(p, v.get(u.under))
	}
	if u.scope == nil && p.doc.Session == u.doc.Session {
		u.scope = p.scope // the session itself may be forgotten
	}
	if p.in && p.scope != u.scope {
		v.add(item{process: p, gone: p.scope, added: p.added})
	}
	p.known, p.doc, p.scope, p.present = true, u.doc, u.scope, u.present
	due := uint64(0)
	if !u.present && u.exited != 0 {
		due = u.exited + uint64(viewMemory)
	}
	if due != p.due {
		p.due, p.recent = due, due > v.time
		if p.recent {
			i, _ := slices.BinarySearchFunc(v.exited, due, leaver.compare)
			v.exited = slices.Insert(v.exited, i, leaver{due, p})
		}
	}
	v.settle(p, true)
}

// hang puts p under another one.
func (v *view) hang(p, under *shownProcess) {
	old := p.under
	if old == under {
		return
	}
	p.under = under
	if !p.in {
		return
	}
	if under != nil {
		under.below++
		v.settle(under, false)
	}
	if old != nil {
		old.below--
		v.settle(old, false)
	}
}

// settle updates p, and then its creators: whether each is in the picture, and whether
// its readers are to get it.
func (v *view) settle(p *shownProcess, changed bool) {
	for ; p != nil; p = p.under {
		in := p.known && p.scope != nil && (p.present || p.recent || p.below > 0)
		if in && (changed || !p.in) {
			p.rev = v.add(item{process: p})
		}
		if in == p.in {
			return
		}
		p.in, changed = in, false
		d := 1
		if in {
			p.added = p.rev
		} else {
			d = -1
			v.add(item{process: p, gone: p.scope, added: p.added})
		}
		v.size += d
		if p.under == nil {
			return
		}
		p.under.below += d
	}
}

func (v *view) forget(id lineage.ID) {
	p := v.procs[id]
	if p == nil {
		return
	}
	p.known, p.recent, p.present, p.due = false, false, false, 0
	v.settle(p, false)
	v.hang(p, nil)
	delete(v.procs, id)
}

func (v *view) session(s *shownSession) {
	old := v.sessions[s.id]
	if s.due != 0 && s.due <= v.time {
		v.close(old)
		return
	}
	if old == nil {
		old = &shownSession{id: s.id}
		v.sessions[s.id] = old
	}
	if s.due != 0 && old.due == 0 {
		v.ended = append(v.ended, old)
	}
	old.doc, old.scope, old.due = s.doc, s.scope, s.due
	old.rev = v.add(item{session: old})
	if !old.in {
		old.in, old.added = true, old.rev
		v.size++
	}
}

func (v *view) close(s *shownSession) {
	if s == nil || !s.in {
		return
	}
	s.in = false
	v.size--
	v.add(item{session: s, gone: s.scope, added: s.added})
}

// expire removes what exited or ended long ago.
func (v *view) expire() {
	gone := 0
	for ; gone < len(v.exited) && (v.exited[gone].due <= v.time || len(v.exited)-gone > viewExited); gone++ {
		if x := v.exited[gone]; x.process.due == x.due {
			x.process.recent = false
			v.settle(x.process, false)
		}
	}
	v.exited = slices.Delete(v.exited, 0, gone)
	v.ended = slices.DeleteFunc(v.ended, func(s *shownSession) bool {
		if s.due > v.time {
			return false
		}
		v.close(s)
		return true
	})
}

func (v *view) current(it *item) bool {
	switch {
	case it.process != nil:
		return it.process.in && it.process.rev == it.rev
	case it.session != nil:
		return it.session.in && it.session.rev == it.rev
	}
	return it.rev == v.statusRev
}

// compact drops outdated items from the log, if they are most of it.
func (v *view) compact() {
	if len(v.log) <= 2*v.size+2*viewRemovals {
		return
	}
	drop := -viewRemovals
	for i := range v.log {
		if v.log[i].gone != nil {
			drop++
		}
	}
	v.log = slices.DeleteFunc(v.log, func(it item) bool {
		if it.gone == nil {
			return !v.current(&it)
		}
		if drop <= 0 {
			return false
		}
		drop--
		v.floor = it.rev
		return true
	})
}

func (v *view) from(rev uint64) int {
	return sort.Search(len(v.log), func(i int) bool { return v.log[i].rev > rev })
}
