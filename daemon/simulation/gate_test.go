//go:build linux

package simulation

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// gate is a daemon's way to the kernel. It is shut when that daemon is killed.
type gate struct {
	*kerneltest.Kernel
	x    *sim
	shut atomic.Bool
	swap atomic.Uint32 // the process that dies, and whose PID another one takes, when the daemon asks for it next

	at    atomic.Int64 // of the last request
	times atomic.Int64 // requests since the clock moved
}

var errShut = errors.New("this daemon is dead")

// most is how many requests a daemon may make at one time.
const most = 5000

// Session notices a daemon that never waits: its next request takes a second.
func (g *gate) Session(id tracer.SessionID) (tracer.SessionInfo, error) {
	if now := time.Now().UnixNano(); g.at.Swap(now) != now {
		g.times.Store(0)
	} else if g.times.Add(1) > most {
		g.x.fail("the daemon asks for %v without a pause", id)
		time.Sleep(time.Second)
	}
	return g.Kernel.Session(id)
}

func (g *gate) Lookup(pid uint32) (tracer.Entry, error) {
	if g.swap.CompareAndSwap(pid, 0) {
		if p := g.Proc(pid); p != nil {
			g.Exit(pid, 0)
			if p.Unreaped {
				g.Reap(pid)
			}
		}
		if g.Proc(pid) == nil {
			g.x.forget(pid)
			g.Add(pid, 1, "lngtest-stranger")
		}
	}
	return g.Kernel.Lookup(pid)
}

func (g *gate) End(id tracer.SessionID, cause tracer.Cause, grace time.Duration) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Kernel.End(id, cause, grace)
}

func (g *gate) Sentence() (tracer.PassResult, error) {
	if g.shut.Load() {
		return tracer.PassResult{}, errShut
	}
	return g.Kernel.Sentence()
}

func (g *gate) Settle(id tracer.SessionID) (tracer.SessionInfo, error) {
	if g.shut.Load() {
		return tracer.SessionInfo{}, errShut
	}
	return g.Kernel.Settle(id)
}

func (g *gate) Release(id tracer.SessionID) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Kernel.Release(id)
}
