//go:build linux

package acts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// settleTime bounds how long to move processes that keep forking.
	settleTime = 3 * time.Second
	// calmRounds in a row must find no process to move: one walk may miss a process
	// that forks and exits during the walk.
	calmRounds = 2
	// catchUp bounds the wait for the events of one round.
	catchUp = 100 * time.Millisecond
)

// alone waits until no other branch of a session is being separated, at the latest until ctx is
// done; done lets the next one in. Two branches that overlap would take processes from each other,
// and if the end of one is refused, its processes would escape the end of the other.
func (a *Acts) alone(ctx context.Context, from tracer.SessionID) (done func(), err error) {
	mine := make(chan struct{})
	for {
		a.mu.Lock()
		other := a.busy[from]
		if other == nil {
			a.busy[from] = mine
		}
		a.mu.Unlock()
		if other == nil {
			return func() {
				a.mu.Lock()
				delete(a.busy, from)
				a.mu.Unlock()
				close(mine)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Branch is a process, alive or dead, with everything that it ever started, or what it started in one tool call. Its session
// is the innermost that the process is in.
type Branch struct {
	Subject

	Grace time.Duration // of its session
	UID   uint32        // of its session

	// These are set once it is separated:
	ID tracer.SessionID // of the session that holds it, nested in its own; 0: Nested hold all of it
	// Nested are sessions that its processes opened. They were nested in its own
	// already, so they are not in ID, and have to be ended with it.
	Nested []tracer.SessionID
}

func (b *Branch) Sessions() []tracer.SessionID {
	if b.ID == 0 {
		return b.Nested
	}
	return append([]tracer.SessionID{b.ID}, b.Nested...)
}

// branchMembers are the live processes of a branch, the oldest first. Creators decide: those
// that the kernel has with each member, and for dead creators those of the graph.
func (a *Acts) branchMembers(b *Branch) ([]tracer.Process, error) {
	x, err := a.look(b, func() {})
	return x.members, err
}

// shared are the live processes that its call may have started, or another call that was open at
// the same time. They are not of the branch.
func (a *Acts) shared(b *Branch) (n int, err error) {
	err = a.o.Registry.Read(func(v registry.View) {
		for _, id := range v.Family(b.Session) {
			for m := range v.Graph().Members(id) {
				if c, _ := v.Graph().Claim(m); b.Call != "" && c != nil && len(c.Calls) > 1 &&
					slices.ContainsFunc(c.Calls, b.claims) {
					n++
				}
			}
		}
	})
	return n, err
}

func (b *Branch) claims(c *lineage.Call) bool { return c.Agent == b.Root && c.ID == b.Call }

type found struct {
	members []tracer.Process
	// opened are the sessions nested in its session that processes of the branch opened, with those
	// nested in them, and outer those that are neither in another one nor the branch's own.
	opened map[tracer.SessionID]bool
	outer  []tracer.SessionID
}

// look finds the branch's processes and sessions. between runs after the kernel's
// processes were read, and before the graph is asked about them.
func (a *Acts) look(b *Branch, between func()) (x found, err error) {
	var all []tracer.Process
	creators := make(map[tracer.Identity]tracer.Identity)
	err = a.o.Kernel.Snapshot(b.Session, func(p *tracer.Process) error {
		creators[p.Identity] = p.Creator
		if !p.Dead && !p.Zombie {
			all = append(all, *p)
		}
		return nil
	})
	if err != nil {
		return x, fmt.Errorf("read the members of session %v: %w", b.Session, err)
	}
	between()
	x.opened = make(map[tracer.SessionID]bool)
	err = a.o.Registry.Read(func(v registry.View) {
		d := descent{b: b, creators: creators, graph: v.Graph(), known: make(map[tracer.Identity]bool)}
		for i := range all {
			if d.has(all[i].Identity) {
				x.members = append(x.members, all[i])
			}
		}
		for _, id := range v.Family(b.Session)[1:] { // from the outside in
			n := v.Session(id)
			if n == nil || n.Closed() {
				continue
			}
			inside := x.opened[n.Info().Parent]
			x.opened[id] = inside || id == b.ID || d.has(n.Info().Root)
			if x.opened[id] && !inside && id != b.ID {
				x.outer = append(x.outer, id)
			}
		}
	})
	oldestFirst(x.members)
	return x, err
}

// descent decides which processes descend by creator from that of a branch, or from those that its
// call started.
type descent struct {
	b        *Branch
	creators map[tracer.Identity]tracer.Identity // by the kernel
	graph    registry.Graph
	known    map[tracer.Identity]bool
}

func (d *descent) has(id tracer.Identity) (found bool) {
	var path []tracer.Identity
	for at := id; ; {
		if d.begins(at) {
			found = true
			break
		}
		if has, seen := d.known[at]; seen {
			found = has
			break
		}
		d.known[at] = false // no loop, whatever is above
		path = append(path, at)
		if at = d.creator(at); at.IsZero() {
			break
		}
	}
	for _, p := range path {
		d.known[p] = found
	}
	return found
}

// begins reports whether a process is of the branch, whatever its creator is.
func (d *descent) begins(id tracer.Identity) bool {
	if d.b.Call == "" {
		return id == d.b.Root
	}
	c, _ := d.graph.Claim(id)
	return c != nil && len(c.Calls) == 1 && d.b.claims(c.Calls[0])
}

// creator is the nearest creator that is known.
func (d *descent) creator(id tracer.Identity) tracer.Identity {
	n, ok := d.graph.Node(id)
	if above := d.creators[id]; !above.IsZero() && (above == d.b.Root || !ok || n.Hops == 0) {
		return above
	}
	if n.Creator == d.b.Root {
		return d.b.Root
	}
	return n.Under
}

var errEmpty = errors.New("no process of it is alive")

// separate opens a session nested in b.Session and moves the branch there, without a signal. The session outlives
// its root: nothing ends before the end is decided. Without an error there is a session that holds the branch. The
// errors are errEmpty, and an *api.Error if the processes fork faster than they are found, or belong to another
// session by now.
func (a *Acts) separate(ctx context.Context, b *Branch) error {
	members, err := a.branchMembers(b)
	switch {
	case err != nil:
		return err
	case len(members) == 0:
		return errEmpty
	}
	if err := a.gather(ctx, b); err != nil {
		rejoined := a.rejoin(b)
		if errors.Is(err, tracer.ErrBusy) { // what was separated ends with the session around it
			return api.Errorf(api.CodeNotFound, "end %v: session %v is ending: nothing to end", b, b.Session)
		}
		return errors.Join(err, rejoined)
	}
	if len(b.Sessions()) == 0 {
		return errEmpty // the last of them has exited since it was found
	}
	a.o.Registry.AskResync(registry.CauseMoved)
	return nil
}

// open opens the branch's session over one of its processes, unless that has exited. That of a call has its id as its name.
func (a *Acts) open(b *Branch, root tracer.Identity) error {
	id, err := registry.Change(a.o.Registry, func(t registry.Tx) (tracer.SessionID, error) {
		spec := tracer.SessionSpec{Name: api.SessionWord(b.Call), Root: root, UID: b.UID,
			Grace: b.Grace, KeepOnRootExit: true, Adopted: true}
		x, err := t.Create(spec)
		if spec.Name != "" && err != nil { // another session may have it
			spec.Name = ""
			x, err = t.Create(spec)
		}
		if err != nil {
			return 0, err
		}
		return x.ID(), nil
	})
	if errors.Is(err, tracer.ErrNotFound) {
		return nil
	}
	if err == nil {
		b.ID = id
	}
	return err
}

// gather moves members until none is left outside the branch's session.
func (a *Acts) gather(ctx context.Context, b *Branch) error {
	end := time.Now().Add(settleTime)
	for calm := 0; calm < calmRounds; {
		moved, err := a.round(ctx, b)
		if err != nil {
			return err
		}
		if calm++; moved {
			calm = 0
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return api.NewError(api.CodeTooMany,
				fmt.Sprintf("end %v: these processes fork and exit faster than they are found; nothing was sent", b),
				fmt.Sprintf("end session %v", b.Session))
		}
	}
	return nil
}

// round moves what it finds outside the branch's session. The first look catches processes that live only for a moment.
// If there is nothing to move, a second one waits until the creators of all that it met are known: what it does not
// find is not in the branch.
func (a *Acts) round(ctx context.Context, b *Branch) (moved bool, err error) {
	if b.ID != 0 {
		n, err := a.o.Registry.Follow(b.Session, b.ID)
		if err != nil {
			return false, err
		}
		moved = n > 0
	}
	late := false
	abreast := func() {
		limited, cancel := context.WithTimeout(ctx, catchUp)
		defer cancel()
		a.o.Registry.CatchUp(limited)
		late = limited.Err() != nil
	}
	abreast()
	x, err := a.look(b, func() {})
	if err != nil {
		return moved, err
	}
	more, err := a.take(b, &x)
	if moved = moved || more; moved || err != nil {
		return moved, err
	}
	if x, err = a.look(b, abreast); err != nil {
		return false, err
	}
	moved, err = a.take(b, &x)
	return moved || late, err
}

// take moves what a look found in b.Session to the branch's session. The first process becomes
// the root of that session; the next round finds the others again.
func (a *Acts) take(b *Branch, x *found) (moved bool, err error) {
	b.Nested = x.outer
	for i := range x.members {
		switch p := &x.members[i]; {
		case x.opened[p.Session]:
			continue
		case p.Session != b.Session:
			return moved, api.NewError(api.CodeChanged,
				fmt.Sprintf("end %v: pid %d was moved to session %v meanwhile; nothing was sent",
					b, p.PID, p.Session), "try again")
		case b.ID == 0:
			if err := a.open(b, p.Identity); err != nil || b.ID != 0 {
				return true, err
			}
		default:
			_, err := a.o.Registry.Move([]tracer.Identity{p.Identity}, b.Session, b.ID)
			if errors.Is(err, tracer.ErrBusy) { // all that it held has exited, and it is over
				b.ID, err = 0, nil
			}
			if err != nil {
				return true, err
			}
		}
		moved = true // or it has exited, and may have forked before
	}
	return moved, nil
}

// rejoin gives the processes back to the session that they were taken from.
func (a *Acts) rejoin(b *Branch) error {
	if b.ID == 0 {
		return nil
	}
	if _, err := a.o.Kernel.Dissolve(b.ID); err != nil {
		return fmt.Errorf("give the processes back to session %v: %w", b.Session, err)
	}
	if err := a.o.Registry.Update(func(t registry.Tx) { t.LetGo(b.ID) }); err != nil {
		return err
	}
	// Until the graph knows where they are, their own session could not ask about them.
	_, err := a.o.Registry.Resync(registry.CauseMoved)
	return err
}
