//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
)

// shutdownTimeout bounds how long requests under way may take when the daemon stops.
const shutdownTimeout = 2 * time.Second

// begin reads the kernel's state. It is called before run.
func (s *Service) begin() error {
	ctx, cancel := context.WithCancel(context.Background())
	go s.Registry.Run(ctx)
	go s.Registry.Guard(func() { s.Ring.Pace(ctx, s.host.Limits.Flush) })
	s.EndRegistry = func() {
		cancel()
		<-s.Registry.Done()
	}
	err := s.Recorder.Remember(s.parts.audit.Receipts)
	s.parts.audit.Receipts = nil // they may be large
	if err != nil {
		s.EndRegistry()
		return err
	}
	if _, err := s.Registry.Resync(registry.CauseStart); err != nil {
		s.EndRegistry()
		return fmt.Errorf("read the kernel's sessions: %w", err)
	}
	return nil
}

func (s *Service) Count() (n int) {
	n, err := registry.Ask(s.Registry, registry.View.Live)
	if err != nil {
		return 0
	}
	return n
}

// idlePeriod is the longest time between two checks whether the daemon is still needed.
const idlePeriod = 10 * time.Second

// run serves until ctx is done, a client stops it, or, if it is ephemeral, it is no
// longer needed. unload: the caller, which holds the lock for it, is to take down the
// kernel side.
func (s *Service) run(ctx context.Context, ln *net.UnixListener, i system.Instance) (lock *system.InstanceLock,
	unload bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	s.stop = func(u bool) {
		once.Do(func() {
			unload = u
			cancel()
		})
	}
	var wg, checking sync.WaitGroup
	guarded := func(wg *sync.WaitGroup, f func()) { wg.Go(func() { s.Registry.Guard(f) }) }
	for _, job := range s.Jobs {
		guarded(&wg, func() { job(ctx) })
	}
	s.Recorder.Begin()
	s.host.Manager.Notify(system.Ready)
	guarded(&wg, func() { s.reportStatus(ctx, s.host.Manager) })
	guarded(&checking, func() {
		s.selfCheck.Now(ctx)
		guarded(&wg, func() { s.releaseMemory(ctx) }) // the start is over
		s.selfCheck.Run(ctx)
	})
	for _, serve := range []func() error{s.Registry.Ingest, func() error { return s.API.Serve(ln) }} {
		guarded(&wg, func() {
			if err := serve(); err != nil {
				s.Registry.Fail(err)
			}
		})
	}
	left := false
	if s.linger != 0 {
		lock, err = s.waitIdle(ctx, i)
		if left = lock != nil; left {
			s.stop(true)
		}
	} else {
		select {
		case <-ctx.Done():
		case err = <-s.Registry.Failed():
		}
	}
	cancel()
	once.Do(func() {}) // from here on unload does not change
	close(s.stopping)
	s.leave()
	down, release := context.WithTimeout(context.Background(), shutdownTimeout)
	defer release()
	s.API.Shutdown(down)
	if unload && lock == nil {
		waiting, release := context.WithTimeout(context.Background(), system.LockTimeout)
		defer release()
		if lock, err = i.AcquireToLeave(waiting, s.alone); err != nil {
			unload = false
		}
	}
	if left && s.Count() > 0 {
		unload = false // a session was opened at the last moment: keep it
	}
	checking.Wait() // it ends its own session, for which it needs the kernel
	s.Registry.CloseIngest()
	err = errors.Join(err, s.parts.kernel.CloseRead())
	wg.Wait()
	s.Recorder.End() // it calls the registry
	s.EndRegistry()
	err = errors.Join(err, s.parts.kernel.Close())
	// Write errors were reported when they happened.
	s.Access.Flush()
	_ = s.parts.audit.Close()
	return lock, unload, err
}

// leave announces that the daemon is about to exit.
func (s *Service) leave() {
	s.host.Manager.Notify(system.Stopping)
	if err := s.alone.Stopping(); err != nil {
		s.parts.log.Error().Err(err).Msg("PID file not written")
	}
}

// waitIdle waits until there has been neither session nor client for the time that the daemon lingers,
// and returns the lock that keeps others from starting a daemon meanwhile. Without a lock it returned
// for another reason.
func (s *Service) waitIdle(ctx context.Context, i system.Instance) (*system.InstanceLock, error) {
	linger := s.linger
	tick := time.Tick(min(max(linger/10, system.PollPause), idlePeriod))
	busy := s.host.Clock.Monotonic()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case err := <-s.Registry.Failed():
			return nil, err
		case <-tick:
		}
		now := s.host.Clock.Monotonic()
		if s.Count() > 0 {
			busy = now
		}
		if now-busy < linger || s.Access.Idle() < linger {
			continue
		}
		lock, err := i.LockToLeave(s.alone)
		switch {
		case errors.Is(err, system.ErrLocked):
			continue
		case err != nil:
			return nil, err
		case s.Access.Idle() >= linger:
			return lock, nil
		}
		lock.Release()
	}
}

// releasePeriod is how often the daemon checks whether it has nothing to do.
const releasePeriod = 5 * time.Minute

// releaseMemory gives the free part of the heap back to the system when the start is
// over, and then once a period if no session lives.
func (s *Service) releaseMemory(ctx context.Context) {
	debug.FreeOSMemory()
	system.Each(ctx, time.Tick(releasePeriod), func(time.Time) {
		if s.Count() == 0 {
			debug.FreeOSMemory()
		}
	})
}

// statusPeriod is how often the service manager gets the status.
const statusPeriod = 10 * time.Second

// reportStatus keeps the service manager informed. The watchdog's message is sent from
// the registry's goroutine, because everything depends on that: if it is stuck, the
// message is missing.
func (s *Service) reportStatus(ctx context.Context, m *system.Manager) {
	if !m.Present {
		return
	}
	period := statusPeriod
	if m.Watchdog > 0 {
		period = min(period, m.Watchdog/3)
	}
	tick := time.Tick(period)
	for {
		if err := s.Registry.Read(func(v registry.View) {
			m.Notify(system.Alive,
				system.StatusField(s.status.Line(v)))
		}); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}
