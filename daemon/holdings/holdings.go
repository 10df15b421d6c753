//go:build linux

package holdings

import (
	"cmp"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// maxHeld bounds the ports and the locks of one session, and of its receipt.
	maxHeld = 1024
	// maxMemory bounds those of all sessions, in bytes.
	maxMemory = 8 << 20
)

// Origin is the session from which the processes of another one were handed over, 0: none. It is
// called in the registry's goroutine.
type Origin func(registry.View, *registry.Session) tracer.SessionID

type Options struct {
	registry.Ground
	Origins   []Origin
	PortsWait func() time.Duration // how long the receipt of an empty session waits for its ports
	Every     time.Duration        // the least between two passes; default 2 s
	Before    time.Duration        // the longest that a first signal waits for a look; default 40 ms
}

type Holdings struct {
	o      Options
	reader *Reader
	ending chan tracer.SessionID // asks for what it holds now
	work   system.PacedWork

	looks chan struct{} // the registry has looked

	// used is of Run: the CPU time of the members at the last pass, and spare at the one before. A member that has not
	// used a CPU since holds what it held, so only the others are read.
	used, spare []used

	// These belong to the registry's goroutine.
	members  []used                     // at the last look
	sessions map[tracer.SessionID]*held // those that have not ended
	open     map[uint64]*socket         // by the kernel's key
	memory   *memory.Share              // of what looks found
}

// held is what a session's members held when they were last seen.
type held struct {
	looked  Held    // as of the last look; not changed in place
	booked  int     // its size in bytes
	sockets sockets // reported by the kernel
	output  string  // the pipe or socket that is its root's standard output
	use     use

	looking bool
	after   *aftermath // nil: not looked at yet
}

// New makes the holdings of no session; attach their hooks.
func New(o Options) *Holdings {
	h := &Holdings{
		o: o, reader: NewReader(string(o.Proc), o.Kernel.Identify),
		ending:   make(chan tracer.SessionID, 64),
		looks:    make(chan struct{}, 1),
		sessions: make(map[tracer.SessionID]*held), open: make(map[uint64]*socket),
		memory: memory.NewShare(maxMemory),
	}
	h.work = system.PacedWork{Least: cmp.Or(o.Every, period), Share: share,
		Elsewhere: h.reader.CPUElsewhere}
	return h
}

func (h *Holdings) Reader() *Reader { return h.reader }

func (h *Holdings) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Opened:  h.opened,
		Adopted: func(_ registry.View, s *registry.Session) { h.ask(s.ID()) },
		Ending: func(_ registry.View, s *registry.Session) {
			if s.Info().State == tracer.StateEnding { // else its members are killed already
				h.ask(s.ID())
			}
		},
		Told:     h.listened,
		Sampled:  h.sampled,
		Describe: h.describe,

		Concluding: h.concluding,
		Reported: func(_ registry.View, s *registry.Session) {
			if its := h.sessions[s.ID()]; its != nil {
				its.after = nil // what is left has to be looked at again
			}
		},
		Closed:     h.forget,
		Forgotten:  h.forget,
		Persistent: h,
	}
}

func (h *Holdings) forget(_ registry.View, s *registry.Session) {
	if its := h.sessions[s.ID()]; its != nil {
		h.memory.Book(s.Info().UID, -its.booked)
		delete(h.sessions, s.ID())
	}
}

// of is what a session holds, that is not over.
func (h *Holdings) of(id tracer.SessionID) *held { return registry.Known(h.sessions, id) }

func (h *Holdings) opened(_ registry.View, s *registry.Session) {
	its := h.of(s.ID())
	if output, err := h.reader.Output(s.Info().Root); err == nil && output != "" {
		its.output = output
	}
}

func (h *Holdings) Remember(_ registry.View, s *registry.Session) []registry.Part {
	if its := h.sessions[s.ID()]; its != nil {
		return []registry.Part{{Name: "output", Value: its.output}}
	}
	return nil
}

func (h *Holdings) Restore(_ registry.View, s *registry.Session, was registry.Parts) error {
	return was.Decode("output", &h.of(s.ID()).output)
}

// Held is what the members of a session hold: the TCP listeners that the kernel reported, the rest as
// of the last look.
func (h *Holdings) Held(_ registry.View, s *registry.Session) (all Held) {
	if its := h.sessions[s.ID()]; its != nil {
		all = its.looked
		all.Ports = its.sockets.held(all.Ports, latest)
	}
	return all
}

// Note notes what the members of a session hold, as found by a look that began at that boottime.
func (h *Holdings) Note(_ registry.View, s *registry.Session, now Held, began uint64) {
	if its, uid := h.sessions[s.ID()], s.Info().UID; its != nil {
		h.memory.Book(uid, -its.booked)
		its.seen(now, began, s.Info().State == tracer.StateActive)
		its.booked = its.looked.Fit(maxHeld, func(bytes int) bool { return h.memory.Take(uid, bytes) })
	}
}

// seen takes the result of a look that began at that boottime. Once the end has begun nothing
// is removed: a process that died during the look still held it when the end began.
func (h *held) seen(now Held, began uint64, active bool) {
	now.Ports = slices.DeleteFunc(now.Ports, func(p Port) bool { return h.sockets.closedSince(&p, began) })
	if !active || len(now.Unknown) > 0 {
		for _, p := range h.looked.Ports {
			if !slices.Contains(now.Ports, p) {
				now.Ports = append(now.Ports, p)
			}
		}
		for _, l := range h.looked.Locks {
			same := func(o Lock) bool { return o.Holder == l.Holder && o.Kind == l.Kind && o.Path == l.Path }
			if !slices.ContainsFunc(now.Locks, same) {
				now.Locks = append(now.Locks, l)
			}
		}
	}
	h.looked = now
}

// ports are the numbers of the TCP and UDP ports that a session's members listen on. A look at
// procfs is some time ago: what it found of a process that has died or left since is left out.
func (h *Holdings) ports(v registry.View, s *registry.Session) []int {
	its := h.sessions[s.ID()]
	if its == nil {
		return nil
	}
	family := v.Family(s.ID())
	return its.sockets.numbers(slices.DeleteFunc(slices.Clone(its.looked.Ports), func(p Port) bool {
		n, ok := v.Graph().Node(p.Holder)
		return ok && (n.State != lineage.Live || !slices.Contains(family, n.Session))
	}))
}
