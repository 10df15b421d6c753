package picture

import "github.com/lineage-ebpf/lineage/api"

// Batch is the content of one or more frames; later ones win. Its size is limited by
// that of the picture, however many frames there were.
type Batch struct {
	Reset    bool // the whole picture: what is not named here is gone
	Upsert   map[api.Ref]*api.Process
	Remove   map[api.Ref]bool
	Sessions map[string]*api.Session
	Closed   map[string]bool
	Status   *api.WatchStatus
	TimeNS   api.U64
	partial  bool // a part of the last frame is still missing
}

// NewBatch makes an empty batch.
func NewBatch() *Batch {
	return &Batch{
		Upsert: map[api.Ref]*api.Process{}, Remove: map[api.Ref]bool{},
		Sessions: map[string]*api.Session{}, Closed: map[string]bool{},
	}
}

// Whole reports whether no part of a frame is missing.
func (b *Batch) Whole() bool { return !b.partial }

// Add puts the next frame on top. A snapshot begins a new picture, even if the last one was
// incomplete; further parts of a snapshot come as diffs. Add copies what it keeps: one
// long-lived process must not keep the whole frame in memory.
func (b *Batch) Add(f *api.Frame) {
	if f.Kind == "snapshot" {
		*b = *NewBatch()
		b.Reset = true
	}
	if f.Kind == "snapshot" || f.Kind == "diff" {
		b.partial = f.Partial
	}
	for i := range f.Upsert {
		b.upsert(new(f.Upsert[i]))
	}
	for _, ref := range f.Remove {
		b.remove(ref)
	}
	for i := range f.Sessions {
		b.session(new(f.Sessions[i]))
	}
	for _, id := range f.Closed {
		b.closed(id)
	}
	b.finish(f.Status, f.TimeNS)
}

// Merge puts a later batch on top; later must not be used afterwards.
func (b *Batch) Merge(later *Batch) {
	if later.Reset {
		*b = *later
		return
	}
	for _, p := range later.Upsert {
		b.upsert(p)
	}
	for ref := range later.Remove {
		b.remove(ref)
	}
	for _, s := range later.Sessions {
		b.session(s)
	}
	for id := range later.Closed {
		b.closed(id)
	}
	b.finish(later.Status, later.TimeNS)
	b.partial = later.partial
}

func (b *Batch) upsert(p *api.Process) {
	delete(b.Remove, p.Ref)
	b.Upsert[p.Ref] = p
}

func (b *Batch) remove(ref api.Ref) {
	delete(b.Upsert, ref)
	if !b.Reset {
		b.Remove[ref] = true
	}
}

func (b *Batch) session(s *api.Session) {
	delete(b.Closed, s.ID)
	b.Sessions[s.ID] = s
}

func (b *Batch) closed(id string) {
	delete(b.Sessions, id)
	if !b.Reset {
		b.Closed[id] = true
	}
}

func (b *Batch) finish(s *api.WatchStatus, t api.U64) {
	if s != nil {
		b.Status = s
	}
	b.TimeNS = max(b.TimeNS, t)
}
