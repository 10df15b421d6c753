//go:build linux

package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// How long a tree may take to grow and to be attributed, and its session to become
// empty. On an idle machine all of it takes some 100 ms.
const (
	growLimit = 10 * time.Second
	overLimit = 10 * time.Second
	askPause  = 5 * time.Millisecond
	fireLimit = 12 * time.Second // RCU callbacks may be lazy: up to 10 s
)

type CheckOptions struct {
	registry.Ground
	Command []string      // that calls CanaryMain; empty: no checks
	Every   time.Duration // 0: at start only
	Self    tracer.Identity
}

// NewCheck makes a Check; Now and Run run it. Until the first one is over the kernel counts the runs of
// programs, which a daemon may ask of it only before it gives up its privileges.
func NewCheck(o CheckOptions) *Check {
	c := &Check{CheckOptions: o, patience: fireLimit}
	if len(o.Command) > 0 {
		var err error
		if c.runs, err = o.Kernel.WatchRuns(); err != nil {
			o.Log.Info().Err(err).Msg("not checked whether each hook fires")
		}
	}
	return c
}

// Check proves regularly that this host attributes and ends processes: it opens a
// session over a canary, lets it try to escape and ends it. It calls the kernel with an
// enforcer of its own, and only reads from the registry, so that it delays nothing and
// is not shown among the sessions of users. Mode and breaker do not apply to it: it
// ends no user's process.
type Check struct {
	CheckOptions
	runs     tracer.Runs                   // until the first check is over
	patience time.Duration                 // with hooks that run late
	last     atomic.Pointer[api.SelfCheck] // nil: none yet
}

func (c *Check) Run(ctx context.Context) {
	if c.Every != 0 {
		system.Each(ctx, time.Tick(c.Every), func(time.Time) { c.Now(ctx) })
	}
}

// Result is the last check's, nil before the first is over.
func (c *Check) Result() *api.SelfCheck { return c.last.Load() }

// Now runs one check. If the end of the daemon cuts it short, the last result stays.
func (c *Check) Now(ctx context.Context) {
	if len(c.Command) == 0 {
		return
	}
	began := c.Clock.Monotonic()
	err := c.try(ctx)
	if c.runs.Close != nil {
		err = errors.Join(err, c.runs.Close())
		c.runs = tracer.Runs{}
	}
	if ctx.Err() != nil {
		return
	}
	r := &api.SelfCheck{OK: err == nil, At: new(time.Now().UTC())}
	took := float64(c.Clock.Monotonic()-began) / float64(time.Millisecond)
	if err != nil {
		r.Why = err.Error()
	}
	before := c.last.Swap(r)
	switch {
	case err != nil:
		c.Log.Error().Err(err).Float64(system.KeyDuration, took).Msg("self-check failed")
	case before == nil || !before.OK:
		c.Log.Info().Float64(system.KeyDuration, took).Msg("self-check passed")
	default:
		c.Log.Debug().Float64(system.KeyDuration, took).Msg("self-check passed")
	}
}

// try is one check, in a thread of its own: the canary's root dies with the thread.
func (c *Check) try(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.sweep(); err != nil {
		return fmt.Errorf("end what an earlier check left: %w", err)
	}
	bird, err := StartCanary(c.Command)
	if err != nil {
		return err
	}
	defer bird.Close()
	root, err := c.Kernel.Identify(uint32(bird.PID()))
	if err != nil {
		return fmt.Errorf("identify the canary: %w", err)
	}
	e := c.ender()
	baseline := e.Begin()
	lost, err := registry.Ask(c.Registry, registry.View.Lost)
	if err != nil {
		return err
	}
	id, err := c.Kernel.Create(tracer.SessionSpec{
		// Whatever happens to this daemon, the kernel ends it.
		Root: root, Owner: c.Self, Name: registry.HiddenName, MaxLifetime: CanaryLimit,
	})
	if err != nil {
		return fmt.Errorf("open the canary's session: %w", err)
	}
	e.Began(id, baseline)
	growing, cancel := context.WithTimeout(ctx, growLimit)
	defer cancel()
	err = errors.Join(c.watch(growing, bird, id, root, lost), c.end(e, id))
	bird.Close()
	return errors.Join(c.fired(ctx), err)
}

// fired names the attached programs that have not run although the canary has forked, execed, exited, been killed
// and been waited for. That a program loads does not prove that it runs.
func (c *Check) fired(ctx context.Context) error {
	if c.runs.Idle == nil {
		return nil
	}
	tick, late := time.Tick(askPause), time.After(c.patience)
	for {
		idle, err := c.runs.Idle()
		if err != nil || len(idle) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-late:
			return fmt.Errorf("these hooks do not fire: %s", strings.Join(idle, ", "))
		case <-tick:
		}
	}
}

// ender is an enforcer for one canary: it does what the daemon's does, and only the
// check gets its results.
func (c *Check) ender() *enforcer.Enforcer {
	return enforcer.New(c.Kernel, enforcer.Options{
		Self: c.Self, Limit: overLimit, Clock: c.Clock.Monotonic, Proc: c.Proc,
	})
}

// watch lets the tree grow and asks to which session the orphan belongs: the kernel,
// then the graph.
func (c *Check) watch(ctx context.Context, bird *Canary, id tracer.SessionID,
	root tracer.Identity, lost uint64) error {
	if err := bird.Release(); err != nil {
		return err
	}
	middle, pid, err := bird.Family(ctx)
	if err != nil {
		return err
	}
	orphan, err := c.Kernel.Lookup(uint32(pid))
	switch {
	case err != nil:
		return fmt.Errorf("ask the kernel for the orphan: %w", err)
	case orphan.Session != id:
		return fmt.Errorf("the kernel has the orphan in session %v, not in %v", orphan.Session, id)
	case orphan.Evidence != tracer.EvidenceFork || orphan.Creator.PID != uint32(middle):
		return fmt.Errorf("the kernel has the orphan by %v from pid %d, not by a fork of %d",
			orphan.Evidence, orphan.Creator.PID, middle)
	}
	tick := time.Tick(askPause)
	patience := time.After(growLimit / 4)
	for {
		wrong, err := registry.Ask(c.Registry,
			func(v registry.View) string { return lacks(v, id, orphan, root, lost) })
		if err != nil || wrong == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New(wrong)
		case <-patience:
			c.Registry.AskResync(registry.CauseMember) // an event may have been lost
		case <-tick:
		}
	}
}

// end ends a canary's session, proves that it is empty and releases it.
func (c *Check) end(e *enforcer.Enforcer, id tracer.SessionID) error {
	if err := e.End(id, tracer.CauseEnd, 0); err != nil {
		return err
	}
	for began := c.Clock.Monotonic(); ; {
		wait, results := e.Step()
		if len(results) > 0 {
			if r := results[0]; r.Verdict != api.VerdictClean {
				return fmt.Errorf("session ended, verdict %s: %s", r.Verdict, r.Why)
			}
			break
		}
		if wait < 0 || c.Clock.Monotonic()-began > 2*overLimit {
			return errors.New("session not ended, and no verdict")
		}
		time.Sleep(min(wait, askPause))
	}
	if err := c.Kernel.Release(id); err != nil {
		return err
	}
	return c.Registry.Forget(id)
}

// sweep ends what the check of a killed daemon left in the kernel.
func (c *Check) sweep() error {
	infos, err := c.Kernel.Sessions()
	if err != nil {
		return err
	}
	for _, info := range infos {
		if registry.Hidden(info) {
			err = errors.Join(err, c.end(c.ender(), info.ID))
		}
	}
	return err
}

// Degraded is what users must know of the last check.
func (c *Check) Degraded() []string {
	if r := c.Result(); r != nil && !r.OK {
		return []string{"the self-check failed: " + cmp.Or(r.Why, "unknown")}
	}
	return nil
}

// lacks describes what the graph lacks of a canary, "" if nothing. If events were lost
// meanwhile it need not know the birth of the dead process in between.
func lacks(v registry.View, id tracer.SessionID, orphan tracer.Entry,
	root tracer.Identity, lost uint64) string {
	n, ok := v.Graph().Node(orphan.Identity)
	switch creator, known := v.Graph().Node(orphan.Creator); {
	case !ok || n.Session != id:
		return "the graph does not have the orphan in its session"
	case n.Creator != orphan.Creator:
		return "the graph has another creator for the orphan"
	case v.Lost() == lost && (!known || creator.Creator != root):
		return "the graph does not lead from the orphan to its session's root"
	case v.Lost() == lost && !n.Orphan:
		return "the graph shows the orphan's creator as alive"
	}
	return ""
}
