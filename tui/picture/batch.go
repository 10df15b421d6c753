package picture

import (
	"cmp"

	"github.com/lineage-ebpf/lineage/api"
)

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

func NewBatch() *Batch {
	return &Batch{
		Upsert: map[api.Ref]*api.Process{}, Remove: map[api.Ref]bool{},
		Sessions: map[string]*api.Session{}, Closed: map[string]bool{},
	}
}

// Add puts the next frame on top. A snapshot begins a new picture, even if the last one was
// incomplete; further parts of a snapshot come as diffs. Add copies what it keeps: one
// long-lived process must not keep the whole frame in memory.
func (b *Batch) Add(f *api.Frame) {
	later := NewBatch()
	later.Reset, later.Status, later.TimeNS = f.Kind == "snapshot", f.Status, f.TimeNS
	later.partial = f.Partial || b.partial && f.Kind == "heartbeat"
	for i := range f.Upsert {
		later.Upsert[f.Upsert[i].Ref] = new(f.Upsert[i])
	}
	for _, ref := range f.Remove {
		later.Remove[ref] = true
	}
	for i := range f.Sessions {
		later.Sessions[f.Sessions[i].ID] = new(f.Sessions[i])
	}
	for _, id := range f.Closed {
		later.Closed[id] = true
	}
	b.Merge(later)
}

// Merge puts a later batch on top; later must not be used afterwards.
func (b *Batch) Merge(later *Batch) {
	if later.Reset {
		*b = *later
		return
	}
	put(b.Upsert, b.Remove, later.Upsert, later.Remove, b.Reset)
	put(b.Sessions, b.Closed, later.Sessions, later.Closed, b.Reset)
	b.Status = cmp.Or(later.Status, b.Status)
	b.TimeNS = max(b.TimeNS, later.TimeNS)
	b.partial = later.partial
}

// put puts what is gone, and then what is there later, on top. A whole picture does not need what is gone.
func put[K comparable, V any](there map[K]V, gone map[K]bool, later map[K]V, left map[K]bool, whole bool) {
	for k := range left {
		delete(there, k)
		if !whole {
			gone[k] = true
		}
	}
	for k, v := range later {
		delete(gone, k)
		there[k] = v
	}
}
