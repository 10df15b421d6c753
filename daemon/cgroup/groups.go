//go:build linux

package cgroup

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Groups has the cgroups of all sessions that have one.
type Groups struct {
	o     Options
	maker Maker
	mount string
	none  error // why there is no Maker
	ready chan struct{}
	wake  chan struct{}

	// These belong to the registry's goroutine.
	of      map[tracer.SessionID]*group
	found   map[tracer.Identity]string // what an earlier daemon made
	outside map[tracer.Identity]stray
	returns map[tracer.Identity]int // how often a member was moved back
	inside  map[spot]bool           // of up to maxKnown
	looked  uint64                  // boottime at which the last look began

	sweeping sync.Mutex // held while groups are removed
	mu       sync.Mutex
	over     map[string]bool // groups to be removed, and whether it was said that they are not empty
}

// group is the cgroup of a session. All belongs to the registry's goroutine.
type group struct {
	id             tracer.SessionID
	path           string
	limits         api.Limits
	account        *api.Account // as last read, nil: not yet
	peak           uint64       // the most memory that was in use when it was read
	moved          bool         // a member ran before it was in it, or elsewhere
	watched        uint64       // since when its moves are reported, boottime
	ooms           []*ooms      // of the mount, and of each group down to its own
	reading, final bool         // the last account is being read, and is there
}

// Options of NewGroups.
type Options struct {
	registry.Ground
	Choose  func() (Maker, string, error) // [Choose]; nil: this daemon makes none
	Returns func(tracer.SessionInfo) bool // whether its members are moved back; nil: no
}

// NewGroups finds what an earlier daemon made.
func NewGroups(o Options) *Groups {
	g := &Groups{o: o, ready: make(chan struct{}), wake: make(chan struct{}, 1),
		of:    make(map[tracer.SessionID]*group),
		found: make(map[tracer.Identity]string), over: make(map[string]bool),
		outside: make(map[tracer.Identity]stray), returns: make(map[tracer.Identity]int),
		inside: make(map[spot]bool)}
	if g.none = errors.New("this daemon makes no cgroups"); o.Choose != nil {
		g.maker, g.mount, g.none = o.Choose()
	}
	if g.none != nil {
		return g
	}
	for dir := range walk(g.mount, "/") {
		if root, ours := rootOf(filepath.Base(dir)); ours {
			g.found[root] = dir
		}
	}
	return g
}

// Hooks are what the registry calls.
func (g *Groups) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Opened: g.opened, Sampled: g.sampled, Concluding: g.concluding, Forgotten: g.forgotten,
		Describe: func(v registry.View, s *registry.Session, d *document.Session) {
			d.Used.Limits, d.Used.Account = g.documents(v, s)
		},
		Closed: func(_ registry.View, s *registry.Session) { g.Drop(g.pathOf(s.ID())) },
		Told:   g.moved, Forked: g.forked, Exited: g.exited,
		Walking: func(registry.View) registry.Want {
			g.looked = g.o.Clock.Boottime()
			return registry.WantNone
		},
	}
}

// Make makes the cgroups for a root, with limits that [Check] has found right, for [Groups.Bind] or [Groups.Drop].
// An error is for the caller.
func (g *Groups) Make(root tracer.Identity, l *api.Limits) (path string, err error) {
	l.Unset, l.Unlimited = nil, 0
	<-g.ready
	switch left := g.leftBy(root); {
	case g.none != nil && l.IfPossible:
		*l = api.Limits{Unset: []string{g.none.Error()}}
		return "", nil
	case g.none != nil:
		err = g.none
	case left != "": // by a daemon that died before the session began
		path, err = left, g.maker.Set(left, l)
		if err != nil {
			g.Drop(left)
		}
	default:
		path, err = g.maker.Make(root, l)
	}
	if err != nil {
		return "", api.NewError(api.CodeUnsupported, err.Error(), "")
	}
	return path, nil
}

// leftBy takes a group of this root, of no session, from those to be removed; "": there is none.
func (g *Groups) leftBy(root tracer.Identity) string {
	g.sweeping.Lock()
	defer g.sweeping.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for path := range g.over {
		if id, _ := rootOf(filepath.Base(path)); id == root {
			delete(g.over, path)
			return path
		}
	}
	return ""
}

// Bind gives a group to a session, in the registry's goroutine; moved: its root has run already. Of the session's own
// group only the limits are read again.
func (g *Groups) Bind(id tracer.SessionID, path string, l *api.Limits, moved bool) {
	x := g.of[id]
	if x == nil || x.path != path {
		x = &group{id: id, path: path, moved: moved, watched: g.o.Clock.Boottime()}
		g.of[id] = x
		if path != "" {
			g.watch(x)
		}
	}
	if x.limits = (api.Limits{}); path != "" {
		x.limits = limitsOf(g.mount, path)
	}
	x.limits.Unset = append(x.limits.Unset, l.Unset...)
}

func (g *Groups) watch(x *group) {
	for dir := range upTo(x.path) {
		x.ooms = append(x.ooms, &ooms{group: dir, n: ranOut(g.mount, dir), at: x.watched})
	}
	if err := g.o.Kernel.WatchMoves(x.id); err != nil {
		g.o.Log.Warn().Err(err).Str(system.KeySession, x.id.String()).
			Msg("who leaves the cgroup is found by looks only")
	}
}

// Drop removes a group, as soon as no process is in it.
func (g *Groups) Drop(path string) {
	if path == "" {
		return
	}
	g.mu.Lock()
	g.over[path] = false
	g.mu.Unlock()
	system.Offer(g.wake, struct{}{})
}

// rounds bounds how often Gather looks.
const rounds = 64

// Gather makes the cgroups of a session whose members run already, and moves them there until a look finds none
// that is elsewhere. Members of nested sessions with limits stay where they are.
func (g *Groups) Gather(id tracer.SessionID, root tracer.Identity, l *api.Limits) error {
	path, err := registry.Ask(g.o.Registry, func(registry.View) string { return g.pathOf(id) })
	switch {
	case err == nil && path != "":
		err = g.maker.Set(path, l)
	case err == nil && l.Any():
		path, err = g.Make(root, l)
	}
	if err != nil || path == "" && len(l.Unset) == 0 {
		return err
	}
	family := make(map[tracer.SessionID]bool)
	if err := g.o.Registry.Update(func(t registry.Tx) {
		if t.Session(id) == nil {
			return
		}
		g.Bind(id, path, l, true)
		for _, s := range t.Family(id) {
			family[s] = s == id || g.of[s] == nil
		}
	}); err != nil || len(family) == 0 || path == "" {
		if len(family) == 0 {
			g.Drop(path)
		}
		return err
	}
	for range rounds {
		var outside []tracer.Identity
		in := inside(g.mount, path)
		if err := g.o.Kernel.Snapshot(0, func(p *tracer.Process) error {
			if family[p.Session] && !p.Dead && !in[int(p.PID)] {
				outside = append(outside, p.Identity)
			}
			return nil
		}); err != nil || len(outside) == 0 {
			return err
		}
		if err := g.maker.Move(path, outside...); err != nil {
			return err
		}
	}
	return nil // what remains outside is counted
}

// Run moves members back, and removes what an earlier daemon left and what is over, until ctx is done.
func (g *Groups) Run(ctx context.Context) {
	g.o.Registry.Do(func(registry.Tx) {
		for _, path := range g.found {
			g.Drop(path)
		}
		g.found = nil
	})
	close(g.ready)
	var again <-chan time.Time
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
			pause = 10 * time.Millisecond
			g.moveBack()
		case <-again:
			pause = min(2*pause, 30*time.Second)
		}
		if again = nil; !g.sweep() {
			again = time.After(pause)
		}
	}
}

// sweep removes what can be removed, nested groups first, and reports whether that was all.
func (g *Groups) sweep() bool {
	g.sweeping.Lock()
	defer g.sweeping.Unlock()
	g.mu.Lock()
	paths := slices.Sorted(maps.Keys(g.over))
	g.mu.Unlock()
	for _, path := range slices.Backward(paths) {
		err := g.maker.Remove(path)
		g.mu.Lock()
		told := g.over[path]
		if g.over[path] = true; err == nil {
			delete(g.over, path)
		}
		g.mu.Unlock()
		if err != nil && !told {
			g.o.Log.Info().Err(err).Str(system.KeyPath, path).Msg("cgroup not removed yet")
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.over) == 0
}

// opened gives a session what an earlier daemon made for it.
func (g *Groups) opened(_ registry.View, s *registry.Session) {
	root := s.Info().Root
	path, ok := g.found[root]
	if !ok || g.of[s.ID()] != nil {
		return
	}
	delete(g.found, root)
	g.Bind(s.ID(), path, &api.Limits{}, false)
}

// sampled reads the accounts once a look.
func (g *Groups) sampled(v registry.View, l *registry.Look) (after func()) {
	var due []*group
	for _, x := range g.of {
		if x.path != "" && !x.final && !x.reading {
			due = append(due, x)
		}
	}
	if len(due) == 0 {
		return nil
	}
	untold := g.compare(v, l)
	return func() {
		g.tell(untold)
		for _, x := range due {
			a, current := accountOf(g.mount, x.path)
			g.o.Registry.Do(func(t registry.Tx) {
				if !x.final {
					x.take(a, current)
					t.Changed(x.id)
				}
			})
		}
	}
}

// Near is how much of its memory limit a session used at the last look, 1: all; 0: it has none.
func (g *Groups) Near(id tracer.SessionID) float64 {
	x := g.of[id]
	if x == nil || x.account == nil || x.limits.MemoryBytes == 0 {
		return 0
	}
	return float64(x.account.MemoryBytes) / float64(x.limits.MemoryBytes)
}

func (g *Groups) documents(v registry.View, s *registry.Session) (l *api.Limits, a *api.Account) {
	x := g.of[s.ID()]
	if x == nil {
		return nil, nil
	}
	if n, ok := v.Graph().Node(s.Info().Root); ok && tracer.Source(n.Source) != tracer.SourceNone {
		x.moved = true
	}
	if x.limits.Any() || x.limits.Unset != nil {
		l = new(x.limits)
		for _, p := range g.outside { // members of nested sessions, too
			if v.Within(p.session, x.id) && !g.holds(x.path, p.cgroup) {
				l.Unlimited++
			}
		}
	}
	if x.account != nil {
		a = new(*x.account)
		a.SinceMove = x.moved
	}
	return l, a
}

// concluding puts them into a receipt. The last one waits until the account was read once more.
func (g *Groups) concluding(v registry.View, s *registry.Session, report *api.Report) (wait bool) {
	x := g.of[s.ID()]
	switch {
	case x == nil:
		return false
	case report.Ended == nil || x.final || x.path == "":
		report.Limits, report.Account = g.documents(v, s)
		return false
	case !x.reading:
		x.reading = true
		go g.o.Registry.Guard(func() {
			a, current := accountOf(g.mount, x.path)
			g.o.Registry.Do(func(t registry.Tx) {
				a.MemoryBytes = 0 // what is left is cache
				x.take(a, current)
				x.final = true
				t.Conclude(x.id)
			})
		})
	}
	return true
}

// forgotten drops the group of a session that ended, or that was dissolved while its processes live on.
func (g *Groups) forgotten(_ registry.View, s *registry.Session) {
	if !s.Closed() {
		g.Drop(g.pathOf(s.ID()))
	}
	delete(g.of, s.ID())
}
