//go:build linux

package stream

import (
	"context"
	"net/http"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// Bounds of one line: a reader that does not read holds one.
const (
	frameProcesses = 256
	frameSessions  = 32
	frameRemovals  = 2048
	frameText      = 128 << 10 // bytes of command lines
	frameItems     = 16384     // looked at under the view's lock
)

// watcher is one reader of the view. It runs in its request's goroutine.
type watcher struct {
	feed   *Feed
	out    *Sender
	caller access.Caller
	at     uint64 // revision of the view that was sent
	base   uint64 // … when the last snapshot began
	whole  bool   // the next line begins a snapshot

	asked *access.Scope // the last one about which sees was asked
	saw   bool
}

// Serve sends the picture and then its changes, until the reader or the daemon goes.
func (f *Feed) Serve(ctx context.Context, rw http.ResponseWriter, c access.Caller) error {
	w := &watcher{feed: f, out: f.o.To(rw, c), caller: c, whole: true}
	if d := access.Decide(c, access.Read, c.Scope()); !d.Allow {
		return f.o.Access.Refuse(c, access.Read, "sessions", d)
	}
	if !f.join(ctx) {
		return registry.ErrStopping
	}
	defer f.leave()
	w.out.Begin()
	w.run(ctx)
	return nil
}

// run sends until the reader or the daemon goes.
func (w *watcher) run(ctx context.Context) {
	beat := time.Tick(w.feed.o.Heartbeat)
	for {
		wake := w.catchUp()
		if wake == nil {
			return
		}
		pace := time.After(viewPeriod)
		for changed := false; !changed || pace != nil; {
			select {
			case <-ctx.Done():
				return
			case <-w.feed.o.Stopping:
				w.out.End(api.Frame{Head: api.Head{Kind: "end"}, Reason: ReasonStopping})
				return
			case <-beat:
				w.out.Encode(api.Frame{Head: api.Head{Kind: "heartbeat"},
					TimeNS: api.U64(w.feed.o.Clock.Boottime())})
				if !w.out.Flush() {
					return
				}
			case <-wake:
				changed, wake = true, nil
			case <-pace:
				pace = nil
			}
		}
	}
}

// catchUp sends what changed up to now. It returns a channel that is closed with the next change, nil if the reader has gone.
func (w *watcher) catchUp() (wake <-chan struct{}) {
	for wake == nil {
		var f api.Frame
		_ = w.caller.RedactAfter(func() error { f, wake = w.next(); return nil })
		if f.Kind != "" {
			w.out.Encode(f)
			if !w.out.Flush() {
				return nil
			}
		}
	}
	return wake
}

// next returns the next line, without a kind if there is nothing to send. At the end of
// the log it returns the channel that is closed when there is more.
func (w *watcher) next() (f api.Frame, wake <-chan struct{}) {
	v := w.feed.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	if max(w.at, w.base) < v.floor {
		w.whole = true
	}
	if w.whole {
		w.at, w.base = 0, v.rev
	}
	text := 0
	items := v.log[v.from(w.at):]
	for i := range items {
		if i == frameItems || len(f.Upsert) == frameProcesses || len(f.Sessions) == frameSessions ||
			len(f.Remove) == frameRemovals || text > frameText {
			f.Partial = true
			break
		}
		text += w.take(v, &f, &items[i])
		w.at = items[i].rev
	}
	if !f.Partial {
		w.at, wake = v.rev, v.wake
	}
	if !w.whole && len(f.Upsert)+len(f.Remove)+len(f.Sessions)+len(f.Closed) == 0 && f.Status == nil {
		return api.Frame{}, wake
	}
	f.Head, f.Rev, f.TimeNS = api.Head{Kind: "diff"}, api.U64(w.at), api.U64(v.time)
	if w.whole {
		f.Head = api.NewHead("snapshot")
		if f.Status == nil {
			f.Status = w.status(v)
		}
	}
	w.whole = false
	return f, wake
}

// take adds one change to a line, and returns how much text it added.
func (w *watcher) take(v *view, f *api.Frame, it *item) (text int) {
	switch {
	case it.gone != nil:
		if it.added > w.at || !w.sees(it.gone) {
			return 0
		}
		if p := it.process; p != nil && !(p.in && w.sees(p.scope)) {
			f.Remove = append(f.Remove, p.ref)
		} else if s := it.session; s != nil && !s.in {
			f.Closed = append(f.Closed, s.id.String())
		}
	case !v.current(it):
	case it.process != nil && w.sees(it.process.scope):
		p := document.ReadableProcess(&it.process.doc, w.caller)
		for _, arg := range it.process.doc.Argv {
			text += len(arg)
		}
		f.Upsert = append(f.Upsert, p)
	case it.session != nil && w.sees(it.session.scope):
		d := it.session.doc
		if d.Root != nil {
			d.Root = new(document.ReadableProcess(d.Root, w.caller))
		}
		d.Delegated = document.ReadableDelegated(d.Delegated, w.caller)
		f.Sessions = append(f.Sessions, d)
	case it.process == nil && it.session == nil:
		f.Status = w.status(v)
	}
	return text
}

// sees applies the rule of the tree and the events.
func (w *watcher) sees(s *access.Scope) bool {
	if s != w.asked {
		w.asked = s
		w.saw = s != nil && access.Decide(w.caller, access.Read, *s).Allow
	}
	return w.saw
}

func (w *watcher) status(v *view) *api.WatchStatus {
	st := v.status
	st.ReadOnly = w.caller.Member != 0
	return &st
}
