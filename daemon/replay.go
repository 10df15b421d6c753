package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// ErrNoRecording is a file that `lineage events -o jsonl --snapshot` did not
// write.
var ErrNoRecording = errors.New(`not a recording; make one with "lineage events -o jsonl --snapshot > FILE"`)

// maxIdle is the longest that playing back waits for the next event.
const maxIdle = 2 * time.Second

// ReplayOptions say how a recording is played back.
type ReplayOptions struct {
	// Speed is how many recorded seconds pass in one; 0: all of it is there at
	// once. Longer than two seconds nothing happens at no speed.
	Speed float64
}

// Replay is an api.Client over a recording. It needs no privilege and changes
// nothing: what would is refused as api.CodeDenied. It is safe for concurrent
// use.
type Replay struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when all is told

	mu      sync.Mutex
	rec     *recording
	err     error // why it ended before its end
	changed chan struct{}
}

var _ api.Client = (*Replay)(nil)

// OpenReplay reads a recording. Nothing is taken of one that is damaged, where
// that can be known beforehand: of what cannot be read twice it is found out
// while it is played. One that was interrupted in the middle of a line is
// whole but for that line, see Cut.
func OpenReplay(in io.Reader, o ReplayOptions) (*Replay, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Replay{cancel: cancel, done: make(chan struct{}), rec: newRecording(), changed: make(chan struct{})}
	if o.Speed <= 0 {
		r.play(ctx, in, 0, func() {})
		if r.err != nil && !errors.Is(r.err, io.ErrUnexpectedEOF) {
			cancel()
			return nil, r.err
		}
		return r, nil
	}
	if again, ok := in.(io.Seeker); ok {
		if at, err := again.Seek(0, io.SeekCurrent); err == nil {
			if err := check(in); err != nil {
				cancel()
				return nil, err
			}
			if _, err := again.Seek(at, io.SeekStart); err != nil {
				cancel()
				return nil, fmt.Errorf("read recording again: %w", err)
			}
		}
	}
	ready := make(chan struct{})
	go r.play(ctx, in, o.Speed, sync.OnceFunc(func() { close(ready) }))
	<-ready
	if err := r.failed(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// check reads a recording for what is wrong with it.
func check(in io.Reader) error {
	r := &Replay{done: make(chan struct{}), rec: newRecording(), changed: make(chan struct{})}
	r.play(context.Background(), in, 0, func() {})
	return r.failed()
}

// failed is why no more came, but for a last line that is cut off.
func (r *Replay) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutLocked() {
		return nil
	}
	return r.err
}

// play tells the lines in their time. ready is called when the processes of
// the beginning are there.
func (r *Replay) play(ctx context.Context, in io.Reader, speed float64, ready func()) {
	defer close(r.done)
	defer ready()
	first := true
	err := api.ReadEvents(in, func(ev *api.Event) error {
		if first {
			if ev.Kind != "recording" {
				return ErrNoRecording
			}
			first = false
			r.rec.begin(ev)
			return nil
		}
		if ev.Kind != "process" {
			ready()
			if err := r.wait(ctx, ev, speed); err != nil {
				return err
			}
		}
		r.mu.Lock()
		r.rec.apply(ev)
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case first:
		r.err = ErrNoRecording
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, api.ErrNoEnd): // recordings are stopped, not ended
		r.err = err
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait lets the time to an event pass.
func (r *Replay) wait(ctx context.Context, ev *api.Event, speed float64) error {
	r.mu.Lock()
	now := r.rec.now
	r.mu.Unlock()
	if speed <= 0 || now == 0 || ev.TimeNS <= now {
		return ctx.Err()
	}
	pause := min(time.Duration(min(float64(ev.TimeNS-now)/speed, float64(maxIdle))), maxIdle)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cut reports that the last line was cut off and is left out.
func (r *Replay) Cut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cutLocked()
}

func (r *Replay) cutLocked() bool { return errors.Is(r.err, io.ErrUnexpectedEOF) }

// Close ends the playing.
func (r *Replay) Close() error {
	r.cancel()
	<-r.done
	return nil
}

// Version is that of the daemon that was recorded.
func (r *Replay) Version(context.Context) (*api.Version, error) {
	v := r.rec.version
	return &v, nil
}

// Status is what the recording tells of it.
func (r *Replay) Status(context.Context) (*api.Status, error) {
	s := &api.Status{Head: api.Head{Schema: api.Schema, Kind: "status"}, Mode: "recording"}
	for _, t := range r.Trees() {
		s.Live += t.Session.Live
		if t.Session.State != "ended" {
			s.Sessions++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Lost = r.rec.lost
	return s, nil
}

// Trees are those of all its sessions, with every process that it knows.
func (r *Replay) Trees() []api.Tree {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.trees()
}

// Sessions lists those of the recording.
func (r *Replay) Sessions(_ context.Context, state, name string) (*api.Sessions, error) {
	list := &api.Sessions{Head: api.Head{Schema: api.Schema, Kind: "sessions"}, Items: []api.Session{}}
	for _, t := range r.Trees() {
		ended := t.Session.State == "ended"
		if state == "ended" && !ended || (state == "" || state == "live") && ended || name != "" && t.Session.Name != name {
			continue
		}
		list.Items = append(list.Items, *t.Session)
	}
	return list, nil
}

// Session finds one by id or name.
func (r *Replay) Session(ctx context.Context, s string) (*api.Session, error) {
	t, err := r.Tree(ctx, s, "all")
	if err != nil {
		return nil, err
	}
	return t.Session, nil
}

// Tree gives the processes of a session.
func (r *Replay) Tree(_ context.Context, s, dead string) (*api.Tree, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.rec.trees() {
		if t.Session.ID != s && (t.Session.Name != s || s == "") {
			continue
		}
		t.Head = api.Head{Schema: api.Schema, Kind: "tree"}
		if dead == "all" || t.Session.State == "ended" {
			return &t, nil
		}
		in := r.rec.picture(0)
		out := func(ref api.Ref) bool { return !in[ref] }
		t.Roots = slices.DeleteFunc(t.Roots, out)
		t.Nodes = slices.DeleteFunc(t.Nodes, func(n api.Node) bool { return out(n.Ref) })
		for i := range t.Nodes {
			t.Nodes[i].Children = slices.DeleteFunc(t.Nodes[i].Children, out)
		}
		return &t, nil
	}
	return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("%s: not in the recording", s), "")
}

// Process finds one by its identity, or the youngest that had a PID.
func (r *Replay) Process(_ context.Context, text string) (*api.Process, error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return nil, api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.rec.find(ref)
	if p == nil {
		return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s: not in the recording", ref), "")
	}
	shown := r.rec.process(p)
	shown.Head = api.Head{Schema: api.Schema, Kind: "process"}
	return &shown, nil
}

// Why tells whose a process is, by the creators that the recording knows.
func (r *Replay) Why(ctx context.Context, text string) (*api.Why, error) {
	p, err := r.Process(ctx, text)
	if err != nil {
		return nil, err
	}
	w := &api.Why{Head: api.Head{Schema: api.Schema, Kind: "why"}, Process: *p}
	w.Process.Head = api.Head{}
	if p.Session != "" {
		if w.Session, err = r.Session(ctx, p.Session); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Edges = r.rec.edges(p.Ref)
	return w, nil
}
