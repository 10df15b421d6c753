//go:build linux

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/canary"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// How long a tree may take to grow and to be attributed, and its session to be
// empty. On an idle machine all of it takes some 100 ms.
const (
	growLimit = 10 * time.Second
	overLimit = 10 * time.Second
	askPause  = 5 * time.Millisecond
)

// canaryName is the kernel's name of the sessions of self-checks, by which the
// next daemon knows them too. No caller can give a session this name.
const canaryName = "~canary"

func isCanary(info tracer.SessionInfo) bool { return info.Name == canaryName }

// selfCheck proves from time to time that this host attributes and ends: it
// opens a session over a canary, lets it run away and ends it. It talks to the
// kernel with an enforcer of its own, and to the registry only in questions, so
// that it delays nobody and nothing of it shows among the sessions of users.
// Neither mode nor breaker concern it: nobody's process is ended.
type selfCheck struct {
	command  []string      // that calls canary.Main; empty: none
	every    time.Duration // 0: at start only
	kernel   kernel
	self     tracer.Identity
	registry *registry.Registry
	clock    registry.Clock
	proc     procfs.FS
	log      zerolog.Logger

	one sync.Mutex // one check at a time

	mu   sync.Mutex
	last *api.SelfCheck // nil: none yet
}

// first checks now.
func (c *selfCheck) first(ctx context.Context) {
	if len(c.command) > 0 {
		c.check(ctx)
	}
}

// run checks once a period.
func (c *selfCheck) run(ctx context.Context) {
	if len(c.command) == 0 || c.every == 0 {
		return
	}
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.check(ctx)
		}
	}
}

// result is the last check's, nil before the first is over.
func (c *selfCheck) result() *api.SelfCheck {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// check makes one check. One that the end of the daemon cuts short leaves the
// last result as it was.
func (c *selfCheck) check(ctx context.Context) *api.SelfCheck {
	c.one.Lock()
	defer c.one.Unlock()
	began := c.clock.Monotonic()
	err := c.try(ctx)
	if ctx.Err() != nil {
		return nil
	}
	now := time.Now().UTC()
	r := &api.SelfCheck{OK: err == nil, At: &now}
	took := float64(c.clock.Monotonic()-began) / float64(time.Millisecond)
	if err != nil {
		r.Why = err.Error()
	}
	c.mu.Lock()
	before := c.last
	c.last = r
	c.mu.Unlock()
	switch {
	case err != nil:
		c.log.Error().Err(err).Float64(logging.KeyDuration, took).Msg("self-check failed")
	case before == nil || !before.OK:
		c.log.Info().Float64(logging.KeyDuration, took).Msg("self-check passed")
	default:
		c.log.Debug().Float64(logging.KeyDuration, took).Msg("self-check passed")
	}
	return r
}

// try is one check, in a thread of its own: the canary's root dies with it.
func (c *selfCheck) try(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.sweep(); err != nil {
		return fmt.Errorf("end what an earlier check left: %w", err)
	}
	bird, err := canary.Start(c.command)
	if err != nil {
		return err
	}
	defer bird.Close()
	root, err := c.kernel.Identify(uint32(bird.PID()))
	if err != nil {
		return fmt.Errorf("identify the canary: %w", err)
	}
	e := c.ender()
	baseline := e.Begin()
	lost := c.lost()
	id, err := c.kernel.Create(tracer.SessionSpec{
		// Whatever becomes of us, the kernel ends it.
		Root: root, Owner: c.self, Name: canaryName, MaxLifetime: canary.Limit,
	})
	if err != nil {
		return fmt.Errorf("open the canary's session: %w", err)
	}
	e.Began(id, baseline)
	growing, cancel := context.WithTimeout(ctx, growLimit)
	defer cancel()
	return errors.Join(c.watch(growing, bird, id, root, lost), c.end(e, id))
}

// ender is an enforcer for one canary: what it does is what the daemon's does,
// and nobody else hears of it.
func (c *selfCheck) ender() *enforcer.Enforcer {
	return enforcer.New(c.kernel, enforcer.Options{
		Self: c.self, Limit: overLimit, Clock: c.clock.Monotonic, Proc: c.proc,
	})
}

func (c *selfCheck) lost() (n uint64) {
	_ = c.registry.Read(func(v registry.View) { n = v.Lost() })
	return n
}

// watch lets the tree grow and asks whose the orphan is: the kernel, then the
// graph.
func (c *selfCheck) watch(ctx context.Context, bird *canary.Canary, id tracer.SessionID, root tracer.Identity, lost uint64) error {
	if err := bird.Release(); err != nil {
		return err
	}
	middle, pid, err := bird.Family(ctx)
	if err != nil {
		return err
	}
	orphan, err := c.kernel.Lookup(uint32(pid))
	switch {
	case err != nil:
		return fmt.Errorf("ask the kernel for the orphan: %w", err)
	case orphan.Session != id:
		return fmt.Errorf("the kernel has the orphan in session %v, not in %v", orphan.Session, id)
	case orphan.Evidence != tracer.EvidenceFork || orphan.Creator.PID != uint32(middle):
		return fmt.Errorf("the kernel has the orphan by %v of pid %d, not by fork of %d", orphan.Evidence, orphan.Creator.PID, middle)
	}
	tick := time.NewTicker(askPause)
	defer tick.Stop()
	patience := time.After(growLimit / 4)
	for {
		wrong := "the daemon is stopping"
		_ = c.registry.Read(func(v registry.View) { wrong = lacks(v, id, orphan, root, lost) })
		if wrong == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New(wrong)
		case <-patience:
			c.registry.AskResync(registry.CauseMember) // perhaps an event was lost
		case <-tick.C:
		}
	}
}

// end ends a canary's session, proves that it is empty and releases it.
func (c *selfCheck) end(e *enforcer.Enforcer, id tracer.SessionID) error {
	if err := e.End(id, tracer.CauseEnd, 0); err != nil {
		return err
	}
	for began := c.clock.Monotonic(); ; {
		wait, results := e.Step()
		if len(results) > 0 {
			if r := results[0]; r.Verdict != api.VerdictClean {
				return fmt.Errorf("session ended, verdict %s: %s", r.Verdict, r.Why)
			}
			break
		}
		if wait < 0 || c.clock.Monotonic()-began > 2*overLimit {
			return errors.New("session not ended, and no verdict")
		}
		time.Sleep(min(wait, askPause))
	}
	if err := c.kernel.Release(id); err != nil {
		return err
	}
	return c.registry.Forget(id)
}

// sweep ends what the check of a daemon that was killed left in the kernel.
func (c *selfCheck) sweep() error {
	infos, err := c.kernel.Sessions()
	if err != nil {
		return err
	}
	for _, info := range infos {
		if isCanary(info) {
			err = errors.Join(err, c.end(c.ender(), info.ID))
		}
	}
	return err
}

// postSelfCheck makes a check now.
func (s *server) postSelfCheck(w http.ResponseWriter, r *http.Request, _ access.Caller, _ *struct{}) error {
	if len(s.selfCheck.command) == 0 {
		return api.NewError(api.CodeInternal, "this daemon was started without a canary", "")
	}
	d := s.selfCheck.check(r.Context())
	if d == nil {
		return registry.ErrStopping
	}
	return reply(w, http.StatusOK, api.SelfChecked{Head: head("selfcheck"), SelfCheck: *d})
}

// degraded says what people must know of the last check.
func (c *selfCheck) degraded() []string {
	if r := c.result(); r != nil && !r.OK {
		return []string{"the self-check failed: " + cmp.Or(r.Why, "unknown")}
	}
	return nil
}

// lacks says what the graph lacks of a canary; empty: nothing. If events were
// lost meanwhile it need not know how the dead one in between was born.
func lacks(v registry.View, id tracer.SessionID, orphan tracer.Entry, root tracer.Identity, lost uint64) string {
	n, ok := v.Graph().Node(orphan.Identity)
	switch creator, known := v.Graph().Node(orphan.Creator); {
	case !ok || n.Session != id:
		return "the graph does not have the orphan in its session"
	case n.Creator != orphan.Creator:
		return "the graph has the orphan by another creator"
	case v.Lost() == lost && (!known || creator.Creator != root):
		return "the graph does not lead from the orphan to its session's root"
	case v.Lost() == lost && !n.Orphan:
		return "the graph does not have the orphan's creator dead"
	}
	return ""
}
