package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// ErrNoRecording means that the file was not written by `lineage events -o jsonl
// --snapshot`.
var ErrNoRecording = errors.New(`not a recording; make one with "lineage events -o jsonl --snapshot > FILE"`)

// maxIdle bounds the wait for the next event.
const maxIdle = 2 * time.Second

// Player answers the live view from a recording. It changes nothing: requests that
// would are refused as api.CodeDenied. It is safe for concurrent use.
type Player struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at the end of the recording

	mu      sync.Mutex
	rec     *recording
	err     error // why playing stopped before the end
	changed chan struct{}
}

// Open reads a recording and plays it at a speed, as a factor; 0 plays everything at once. At every
// speed the next event comes within two seconds. A damaged recording is refused as a whole, if it can
// be read twice; otherwise the damage is found while it is played. If a recording ends in the middle
// of a line, only that line is missing, see Cut.
func Open(in io.Reader, speed float64) (*Player, error) {
	if again, ok := in.(io.Seeker); ok && speed > 0 {
		if at, err := again.Seek(0, io.SeekCurrent); err == nil {
			if _, err := Open(in, 0); err != nil {
				return nil, err
			}
			if _, err := again.Seek(at, io.SeekStart); err != nil {
				return nil, fmt.Errorf("read recording again: %w", err)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Player{cancel: cancel, done: make(chan struct{}), rec: newRecording(), changed: make(chan struct{})}
	ready := make(chan struct{})
	go p.play(ctx, in, speed, sync.OnceFunc(func() { close(ready) }))
	if speed > 0 {
		<-ready
	} else {
		<-p.done
	}
	if err := p.failed(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// failed gives the error that ended it, unless the last line was cut off.
func (p *Player) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutLocked() {
		return nil
	}
	return p.err
}

// play applies the lines at their times. ready is called after the processes of
// the snapshot.
func (p *Player) play(ctx context.Context, in io.Reader, speed float64, ready func()) {
	defer close(p.done)
	defer ready()
	first := true
	err := api.ReadEvents(in, func(ev *api.Event) error {
		if first {
			if ev.Kind != "recording" {
				return ErrNoRecording
			}
			first = false
			return nil
		}
		if ev.Kind != "process" && (ev.Type != api.EventSession || ev.Time != nil) {
			ready()
			if err := p.wait(ctx, ev, speed); err != nil {
				return err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rec.apply(ev)
		p.wake()
		return nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case first:
		p.err = ErrNoRecording
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, api.ErrNoEnd): // recordings are interrupted, they have no end line
		p.err = err
	}
	p.wake()
}

// wake wakes the views. It is called with the lock held.
func (p *Player) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait waits until the time of an event.
func (p *Player) wait(ctx context.Context, ev *api.Event, speed float64) error {
	p.mu.Lock()
	now := p.rec.now
	p.mu.Unlock()
	if speed <= 0 || now == 0 || ev.TimeNS <= now {
		return ctx.Err()
	}
	pause := time.Duration(min(float64(ev.TimeNS-now)/speed, float64(maxIdle)))
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cut reports that the last line was cut off; it is left out.
func (p *Player) Cut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutLocked()
}

func (p *Player) cutLocked() bool { return errors.Is(p.err, io.ErrUnexpectedEOF) }

// Close stops playing.
func (p *Player) Close() error {
	p.cancel()
	<-p.done
	return nil
}

// Trees gives the trees of all sessions, with every process of the recording.
func (p *Player) Trees() []api.Tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec.trees()
}

// Session finds one by id or name.
func (p *Player) Session(_ context.Context, s string) (*api.Session, error) {
	for _, t := range p.Trees() {
		if t.Session.ID == s || t.Session.Name == s && s != "" {
			return t.Session, nil
		}
	}
	return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("%s: not in the recording", s), "")
}

// Why says which session a process belongs to, with the creators that the
// recording has.
func (p *Player) Why(ctx context.Context, text string) (*api.Why, error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return nil, api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.rec.find(ref)
	if found == nil {
		return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s: not in the recording", ref), "")
	}
	w := &api.Why{Head: api.NewHead("why"), Process: p.rec.process(found), Edges: p.rec.edges(found.Ref)}
	for _, t := range p.rec.trees() {
		if t.Session.ID == found.Session {
			w.Session = t.Session
		}
	}
	return w, nil
}

// Plan is refused, like all that follow.
func (p *Player) Plan(_ context.Context, s string) (*api.Plan, error) {
	return nil, denied("plan " + s)
}

// End is refused.
func (p *Player) End(_ context.Context, s string, _ api.EndRequest) (*api.Report, error) {
	return nil, denied("end " + s)
}

// Kill is refused.
func (p *Player) Kill(_ context.Context, ref string, _ api.KillRequest) (*api.Killed, error) {
	return nil, denied("kill " + ref)
}

// Report is refused: a recording has no receipts.
func (p *Player) Report(_ context.Context, s string, _ time.Duration) (*api.Report, error) {
	return nil, denied("report " + s)
}

func denied(what string) error {
	return api.NewError(api.CodeDenied, what+": not permitted: this is a recording", "")
}
