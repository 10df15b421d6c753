package replay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// exitedStays is how long exited processes stay in the view, in recorded time.
const exitedStays = 30 * time.Second

// Watch sends the picture as it was, at the speed of playback. At the end of the
// recording it waits until ctx is done.
func (p *Player) Watch(ctx context.Context, q api.WatchQuery, each func(*api.Frame) error) error {
	if q.Hz < 0 || q.Hz > 10 {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid hz %d: must be 1 to 10", q.Hz), "")
	}
	if q.Hz == 0 {
		q.Hz = 10
	}
	w := watcher{player: p, session: q.Session, processes: map[api.Ref]uint64{}, sessions: map[string]api.Session{}}
	if q.Session != "" {
		s, err := p.Session(ctx, q.Session)
		if err != nil {
			return err
		}
		w.session = s.ID
	}
	tick := time.NewTicker(time.Second / time.Duration(q.Hz))
	defer tick.Stop()
	for {
		f, changed, err := w.frame()
		if f != nil {
			if err := each(f); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watcher remembers what it has sent.
type watcher struct {
	player    *Player
	session   string
	lines     api.U64
	processes map[api.Ref]uint64 // with the revision that was sent
	sessions  map[string]api.Session
	status    api.WatchStatus
}

// frame is what is new, nil if there is nothing. changed is closed when there may be
// more; err is why there will be no more.
func (w *watcher) frame() (f *api.Frame, changed <-chan struct{}, err error) {
	w.player.mu.Lock()
	defer w.player.mu.Unlock()
	rec := w.player.rec
	f = &api.Frame{Head: api.Head{Kind: "diff"}, TimeNS: rec.now}
	if w.lines == 0 {
		f.Head = api.NewHead("snapshot")
	}
	picture := rec.picture(exitedStays)
	for ref := range picture {
		p := rec.processes[ref]
		shown := rec.process(p)
		rev := rec.revs[ref] << 1
		if shown.Orphan {
			rev |= 1 // it became an orphan without a line of its own
		}
		if (w.session == "" || p.Session == w.session) && (w.processes[ref] != rev || w.lines == 0) {
			w.processes[ref] = rev
			f.Upsert = append(f.Upsert, shown)
		}
	}
	for ref := range w.processes {
		if !picture[ref] {
			delete(w.processes, ref)
			f.Remove = append(f.Remove, ref)
		}
	}
	status := api.WatchStatus{Mode: "recording", ReadOnly: true, Lost: rec.lost, Forks: rec.forks}
	for _, t := range rec.trees() {
		status.Live += t.Session.Live
		old, sent := w.sessions[t.Session.ID]
		if s := t.Session; (w.session == "" || s.ID == w.session) && (!sent || sessionDiffers(&old, s)) {
			w.sessions[s.ID] = *s
			f.Sessions = append(f.Sessions, *s)
		}
	}
	if w.lines == 0 || w.statusDiffers(&status) {
		w.status, f.Status = status, &status
	}
	changed, err = w.player.changed, w.player.err
	if w.player.cutLocked() {
		err = nil
	}
	if w.lines > 0 && len(f.Upsert)+len(f.Remove)+len(f.Sessions) == 0 && f.Status == nil {
		return nil, changed, err
	}
	w.lines++
	f.Rev = w.lines
	return f, changed, err
}

func (w *watcher) statusDiffers(s *api.WatchStatus) bool {
	return s.Lost != w.status.Lost || s.Forks != w.status.Forks || s.Live != w.status.Live
}

func sessionDiffers(a, b *api.Session) bool {
	return a.State != b.State || a.EndReason != b.EndReason || a.Live != b.Live || a.Orphans != b.Orphans || a.Zombies != b.Zombies ||
		(a.Root == nil) != (b.Root == nil) || !slices.Equal(a.Ports, b.Ports)
}
