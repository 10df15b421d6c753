//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const (
	guardPeriod  = time.Second // between two looks at ancestors whose exit would not be seen
	maxAncestors = 128         // that are compared
)

// protect enters the daemon and its ancestors as processes that no pass will ever signal, and
// takes that protection from all other processes: from the ancestors of a daemon before, and
// from those that are no longer this daemon's, because a process in between has exited.
func protect(k Kernel, pid uint32) (tracer.Identity, error) {
	self, err := k.Identify(pid)
	if err != nil {
		return self, fmt.Errorf("identify the daemon: %w", err)
	}
	if e, err := k.Lookup(pid); err == nil && e.Identity == self && e.Session != 0 {
		return self, fmt.Errorf("session %v: %w; run it from outside the session", e.Session, ErrMember)
	} else if err != nil && !errors.Is(err, tracer.ErrNotFound) {
		return self, fmt.Errorf("look up the daemon: %w", err)
	}
	parents := make(map[uint32]uint32)
	var guarded []tracer.Identity
	err = k.Snapshot(0, func(p *tracer.Process) error {
		parents[p.PID] = p.Parent.PID
		if p.Flags&tracer.FlagProtected != 0 {
			guarded = append(guarded, p.Identity)
		}
		return nil
	})
	if err != nil {
		return self, fmt.Errorf("find the daemon's ancestors: %w", err)
	}
	if err := k.Protect(pid); err != nil {
		return self, fmt.Errorf("protect the daemon: %w", err)
	}
	above := map[uint32]bool{pid: true}
	for range len(parents) {
		if pid = parents[pid]; pid == 0 {
			break
		}
		above[pid] = true
		// An ancestor that died meanwhile, or is a member, needs no protection.
		if err := k.Protect(pid); err != nil && !errors.Is(err, tracer.ErrNotFound) &&
			!errors.Is(err, tracer.ErrProtected) {
			return self, fmt.Errorf("protect the daemon's ancestor: %w", err)
		}
	}
	for _, id := range guarded {
		if above[id.PID] {
			continue
		}
		if err := k.Unprotect(id); err != nil && !errors.Is(err, tracer.ErrNotFound) {
			return self, fmt.Errorf("stop protecting %v: %w", id, err)
		}
	}
	return self, nil
}

// guard protects the daemon's present ancestors until ctx is done; they change only when one of them exits. Then freed
// is called: a process that is no longer protected may have become an agent while it was, as the shell that started
// the daemon.
func guard(ctx context.Context, k Kernel, proc procfs.FS, pid uint32, freed func(), log zerolog.Logger) {
	var last []tracer.Identity
	for ctx.Err() == nil {
		now := ancestors(proc, pid)
		watching, stop := context.WithCancel(ctx)
		exit := exitOf(watching, now)
		// Before it was watched, a PID may have been given to another process.
		sure := exit != nil && slices.Equal(now, ancestors(proc, pid))
		if len(now) > 0 && !slices.Equal(now, last) {
			if _, err := protect(k, pid); err != nil {
				log.Error().Err(err).Msg("ancestors of the daemon not protected")
				sure = false
			} else {
				last = now
				freed()
			}
		}
		var again <-chan time.Time
		if !sure {
			again = time.After(guardPeriod)
		}
		select {
		case <-ctx.Done():
		case <-exit:
		case <-again:
		}
		stop()
	}
}

// exitOf has an element when one of the processes has exited, until ctx is done; nil: one of
// them cannot be watched.
func exitOf(ctx context.Context, all []tracer.Identity) <-chan bool {
	exit := make(chan bool, len(all))
	for _, id := range all {
		fd, err := unix.PidfdOpen(int(id.PID), unix.PIDFD_NONBLOCK)
		if err != nil {
			return nil
		}
		f := os.NewFile(uintptr(fd), "pidfd")
		context.AfterFunc(ctx, func() { f.Close() })
		conn, err := f.SyscallConn()
		if errors.Join(err, f.SetDeadline(time.Time{})) != nil {
			return nil // the runtime's epoll does not have it
		}
		go func() {
			err := conn.Read(func(fd uintptr) bool { return procfs.Exited(int(fd)) })
			exit <- err == nil
		}()
	}
	return exit
}

// ancestors are the process and those above it, as procfs has them; a start is in its ticks.
func ancestors(proc procfs.FS, pid uint32) (all []tracer.Identity) {
	for range maxAncestors {
		stat, err := proc.Stat(pid)
		if err != nil {
			break
		}
		all = append(all, tracer.Identity{PID: pid, Start: stat.Start})
		if pid = stat.Parent; pid == 0 {
			break
		}
	}
	return all
}
