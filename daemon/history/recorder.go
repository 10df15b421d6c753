//go:build linux

package history

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// recordChunk bounds what one call asks of the registry, which must not wait.
const recordChunk = 256

type Options struct {
	registry.Ground
	Ring    *Ring
	Journal Store
	Boot    string
	Redact  func(argv []string) []string // hides secrets
}

// Recorder writes the history in the background: it is one more reader of the ring of
// events, and asks the registry for sessions and processes when it has time. Events
// that it is too slow for fall off the ring and are counted. Its other fields belong to
// the goroutine that runs run.
type Recorder struct {
	Options

	pauses pauses
	lost   atomic.Uint64 // events that fell off the ring before they were written

	marks  marks
	saving chan struct{} // there are new marks

	next     uint64                    // the first event that is not written
	sessions map[tracer.SessionID]bool // to be written
	touched  map[lineage.ID]bool       // processes named in events
	over     []Session                 // sessions that ended while no daemon ran
	rows     map[lineage.ID]bool       // live processes that the file has
	dead     map[tracer.SessionID]int  // dead processes that the file has, by live session
	done     chan struct{}
	cancel   context.CancelFunc
}

// pauses are how the recorder spares others.
type pauses struct {
	// period is the time between two batches of the history. Fewer events than recordChunk wait gather
	// more for others, because each block repeats the command lines of its events: a daemon that is
	// killed loses a second.
	period, gather time.Duration
	// After a batch it rests share times as long as that used a CPU: in a storm it takes
	// at most a fifth of a CPU, because the rest is for the registry. Events that fall off the
	// ring meanwhile are reported as a gap.
	share int
	limit time.Duration // of the last batch, when the daemon stops
}

// marks are notes about sessions, of the registry's goroutine.
type marks struct {
	unsaved map[tracer.SessionID]bool // the history has no current copy of them
	saved   map[tracer.SessionID]bool // ended, and the history has a current copy of them
	unkept  uint64                    // how many were forgotten before they were written
	letGo   []tracer.SessionID        // dissolved: their rows are deleted
}

// NewRecorder makes a recorder of what the registry has; attach its hooks.
func NewRecorder(o Options) *Recorder {
	return &Recorder{
		Options:  o,
		pauses:   pauses{250 * time.Millisecond, 750 * time.Millisecond, 4, 5 * time.Second},
		next:     o.Ring.End(),
		sessions: make(map[tracer.SessionID]bool),
		touched:  make(map[lineage.ID]bool),
		rows:     make(map[lineage.ID]bool),
		dead:     make(map[tracer.SessionID]int),
		marks:    marks{unsaved: make(map[tracer.SessionID]bool), saved: make(map[tracer.SessionID]bool)},
		saving:   make(chan struct{}, 1),
	}
}

func (r *Recorder) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Saved: func(_ registry.View, s *registry.Session) {
			r.marks.unsaved[s.ID()] = true
			delete(r.marks.saved, s.ID())
			system.Offer(r.saving, struct{}{})
		},
		Forgotten: func(_ registry.View, s *registry.Session) {
			if !s.Closed() {
				if len(r.marks.letGo) < RingSize {
					r.marks.letGo = append(r.marks.letGo, s.ID())
				}
				system.Offer(r.saving, struct{}{})
			} else if !r.marks.saved[s.ID()] {
				r.marks.unkept++
			}
			delete(r.marks.saved, s.ID())
		},
	}
}

func (r *Recorder) Begin() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	go r.Registry.Guard(func() { r.run(ctx) })
}

// End writes what is pending and closes the journal. It does not wait for a disk that
// does not answer; the journal is closed when the disk answers after all.
func (r *Recorder) End() {
	if r.done == nil {
		r.Journal.Close() // nothing was written
		return
	}
	r.cancel()
	select {
	case <-r.done:
		r.Journal.Close()
	case <-time.After(r.pauses.limit):
		r.Log.Error().Str(system.KeyPath,
			r.Journal.Path()).Msg("the end of the history was not written in time")
		go func() {
			<-r.done
			r.Journal.Close()
		}()
	}
}

// flush writes what is new, batch after batch; it begins none after limit. If a write
// fails, all of it stays to be written: the events in the ring as long as it holds
// them, the rest as a note of what it is about.
func (r *Recorder) flush(limit time.Duration) {
	for began := time.Now(); time.Since(began) < limit && r.turn(MaxBlock-1); { // and a gap
	}
}

// turn writes one batch with at most that many events. It reports whether there is more, and the last one
// was written.
func (r *Recorder) turn(events uint64) (more bool) {
	if !r.Journal.Due() {
		return false
	}
	b, more := r.batch(events)
	if b.Empty() {
		return false
	}
	if r.write(&b.Batch) != nil {
		r.keep(b)
		return false // already reported
	}
	r.written(b)
	return more
}

// maxPiece is how many bytes of processes are written at once.
const maxPiece = 4 << 20

// write writes a batch in pieces, which are not cancelled half-way: the journal bounds itself. The
// first one has the receipts, so that no process has the room that they need.
func (r *Recorder) write(b *Batch) error {
	pieces := []Batch{{Sessions: b.Sessions, LetGo: b.LetGo}}
	for left := b.Processes; len(left) > 0; {
		n, bytes := 0, 0
		for ; n < len(left) && bytes < maxPiece; n++ {
			bytes += len(left[n].Doc)
		}
		pieces = append(pieces, Batch{Processes: left[:n]})
		left = left[n:]
	}
	pieces = append(pieces, Batch{Gone: b.Gone, Events: b.Events})
	for i := range pieces {
		pieces[i].Zero, pieces[i].Spare = b.Zero, r.spare
		if err := r.Journal.Write(context.Background(), &pieces[i]); err != nil {
			return err
		}
	}
	return nil
}

// spare reports whether the history may do without a process of a live session: it is dead, and no
// live one descends from it.
func (r *Recorder) spare(pid uint32, start uint64, session tracer.SessionID) bool {
	if r.rows[lineage.ID{PID: pid, Start: start}] {
		return false
	}
	r.dead[session] = max(0, r.dead[session]-1)
	return true
}

// batch is what is written together, and what to note afterwards.
type batch struct {
	Batch
	next uint64
	lost uint64
	past []Process // of live sessions, and dead from now on
}

// batch gathers what is new; more: there is more than one batch takes.
func (r *Recorder) batch(most uint64) (b *batch, more bool) {
	b = &batch{Batch: Batch{Zero: r.Clock.Zero(), Sessions: r.over}}
	buf := make([]RecentEvent, min(r.Ring.End()-r.next, most))
	n, first, _ := r.Ring.Read(r.next, buf)
	b.Events = make([]Record, 0, n+1)
	if b.lost = first - r.next; b.lost > 0 && n > 0 {
		gap := Record{Seq: first - 1, Event: tracer.Event{Type: tracer.EventLost, Time: buf[0].Time, Count: b.lost}}
		b.Events = append(b.Events, gap)
	}
	hidden, full := make(map[*lineage.Image]*lineage.Image), uint64(n) == most
	for i, bytes := 0, 0; i < n; i++ {
		b.Events = append(b.Events, r.record(&buf[i], hidden))
		if bytes += len(b.Events[len(b.Events)-1].Subject); bytes > maxPiece { // members choose how long they are, and a block has a bound
			n, full = i+1, true
		}
	}
	b.next = first + uint64(n)
	r.ask(b)
	return b, full || len(r.sessions) > 0
}

// rowless are the events that no row of a process has.
var rowless = []tracer.EventType{tracer.EventReaped, tracer.EventListen,
	tracer.EventUnlisten, tracer.EventMark}

// record converts an event for the file, without its secrets, and notes what it changes. Events that share
// a command line share it in hidden, too.
func (r *Recorder) record(x *RecentEvent, hidden map[*lineage.Image]*lineage.Image) Record {
	ev := x.Event
	if ev.Session != 0 {
		if ev.Type == tracer.EventExit || ev.Type == tracer.EventSession {
			r.sessions[ev.Session] = true
		}
		if ev.Process.PID != 0 && !slices.Contains(rowless, ev.Type) {
			r.touched[ev.Process] = true
		}
	}
	hide := func(img *lineage.Image) *lineage.Image {
		if img != nil && hidden[img] == nil {
			hidden[img] = &lineage.Image{Comm: img.Comm, Exe: img.Exe,
				Argv: r.Redact(img.Argv), Truncated: img.Truncated}
		}
		return hidden[img]
	}
	ev.Image, ev.Was = hide(ev.Image), hide(ev.Was)
	rec := Record{Seq: x.Seq, Event: ev}
	if x.Subject != nil {
		rec.Subject, _ = json.Marshal(document.ReadableSession(x.Subject, document.Hiding(r.Redact))) // plain structs
	}
	return rec
}

func (r *Recorder) written(b *batch) {
	r.next, r.over = b.next, nil
	r.lost.Add(b.lost)
	for _, p := range b.past {
		if id := (lineage.ID{PID: p.PID, Start: p.Start}); r.rows[id] {
			delete(r.rows, id)
			r.dead[p.Session]++
		}
	}
	for _, id := range b.LetGo {
		delete(r.dead, id)
	}
	var ended []tracer.SessionID
	for i := range b.Sessions {
		if x := &b.Sessions[i]; x.Boot == r.Boot && !x.Ended.IsZero() {
			ended = append(ended, x.ID)
			delete(r.dead, x.ID)
		}
	}
	if len(ended)+len(b.LetGo) == 0 {
		return
	}
	r.Registry.Do(func(v registry.Tx) {
		r.marks.letGo = r.marks.letGo[len(b.LetGo):]
		for _, id := range ended {
			if v.Session(id) != nil && !r.marks.unsaved[id] {
				r.marks.saved[id] = true
			}
		}
	})
}

// keep notes what a batch that was not written was about.
func (r *Recorder) keep(b *batch) {
	for i := range b.Sessions {
		r.sessions[b.Sessions[i].ID] = true
	}
	for i := range b.Processes {
		if len(r.touched) < RingSize {
			r.touched[lineage.ID{PID: b.Processes[i].PID, Start: b.Processes[i].Start}] = true
		}
	}
}

func (r *Recorder) Degraded() []string { return r.Journal.Degraded() }

func (r *Recorder) Count(_ registry.View, counters map[string]uint64) {
	st := r.Journal.Stats()
	for name, n := range map[string]uint64{
		"batches": st.Batches, "failed": st.Failed, "events": st.Events, "events_lost": r.lost.Load(),
		"sessions":      st.Sessions,
		"sessions_lost": r.marks.unkept, "damaged": st.Damaged, "pruned": st.Pruned,
		"aside": st.Aside, "bytes": uint64(max(st.Bytes, 0)),
	} {
		counters["history."+name] = n
	}
}
