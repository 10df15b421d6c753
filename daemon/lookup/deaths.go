//go:build linux

package lookup

import (
	"context"
	"slices"
	"sync"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxDeaths is how many processes in no session are remembered that a signal has killed.
const maxDeaths = 1024

// Deaths are the last of these processes. If there are too many, the oldest of a user who has more than an equal part goes.
// It may be used from any goroutine.
type Deaths struct {
	mu    sync.Mutex
	all   []death       // oldest first
	share *memory.Share // of their number
}

type death struct {
	id     tracer.Identity
	looks  tracer.Looks
	signal *tracer.Signal
}

// NewDeaths has none.
func NewDeaths() *Deaths { return &Deaths{share: memory.NewShare(maxDeaths)} }

// Add remembers an [tracer.EventDeath]. Of a process the first one counts, unless a later one knows that what the
// kernel sent came from the OOM killer.
func (d *Deaths) Add(ev *tracer.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := func(x death) bool { return x.id == ev.Process }
	if i := slices.IndexFunc(d.all, known); i >= 0 {
		if d.all[i].signal.Sender == tracer.ByKernel {
			d.all[i].signal = ev.Signal
		}
		return
	}
	d.all = append(d.all, death{ev.Process, ev.Looks, ev.Signal})
	if d.share.Book(ev.UID, 1); !d.share.Over() {
		return
	}
	i := slices.IndexFunc(d.all, func(x death) bool { return d.share.Exceeds(x.looks.UID) })
	d.share.Book(d.all[i].looks.UID, -1)
	d.all = slices.Delete(d.all, i, i+1)
}

// last is the one that had the PID last, other than but; start 0: any.
func (d *Deaths) last(id, but tracer.Identity) (found death, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		if x.id.PID == id.PID && (id.Start == 0 || x.id == id) && x.id != but && x.id.Start >= found.id.Start {
			found, ok = x, true
		}
	}
	return found, ok
}

// Death is a process in no session that a text names, other than but, and that a signal has killed; nil: none is known,
// or c is not root.
func (f *Finder) Death(ctx context.Context, text string, but api.Ref, c access.Caller) *api.Process {
	ref, err := api.ParseRef(text)
	if err != nil || c.Foreign || !c.Root() {
		return nil
	}
	f.o.Registry.CatchUp(ctx)
	x, ok := f.o.Deaths.last(document.ID(ref), document.ID(but))
	if !ok {
		return nil
	}
	killer := document.Sender(f.o.Clock.Clock, x.signal)
	return &api.Process{
		Ref: document.Ref(x.id), Comm: tracer.Comm(x.looks.Comm).String(), UID: new(int(x.looks.UID)), State: api.StateExited,
		Started: f.o.Clock.Wall(x.id.Start), Signal: killer.Signal, Killer: killer,
	}
}
