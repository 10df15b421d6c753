package document

import (
	"encoding/hex"
	"syscall"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Reader interface {
	// Argv is the command line of a user's process as the reader gets it: whole,
	// without secrets, or nil.
	Argv(uid uint32, argv []string) []string
}

// Kernel knows the processes that the graph does not.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
}

// Encoder makes documents of one graph: the live one, or one restored from the
// history. Only the goroutine that owns the graph may use it.
type Encoder struct {
	Graph  *lineage.Graph
	Clock  Clock
	Kernel Kernel
}

func Ref(id lineage.ID) api.Ref {
	return api.Ref{PID: int(id.PID), StartNS: api.U64(id.Start)}
}

func ID(r api.Ref) lineage.ID {
	return lineage.ID{PID: uint32(r.PID), Start: uint64(r.StartNS)}
}

// RefOrNil is a Ref, nil if id names no process.
func RefOrNil(id lineage.ID) *api.Ref {
	if id.PID == 0 {
		return nil
	}
	return new(Ref(id))
}

// word is a session in documents; "" for none.
func word(id tracer.SessionID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// Process is a node, with its command line as r gets it.
func (e Encoder) Process(n *lineage.Node, r Reader) api.Process {
	p := api.Process{
		Ref:     Ref(n.ID),
		Exe:     n.Exe,
		State:   api.ProcessState(n.State.String()),
		Creator: RefOrNil(n.Creator), Parent: RefOrNil(n.Parent),
		Session:    word(n.Session),
		Orphan:     n.Orphan,
		CPUSeconds: seconds(n.CPUTime),
		RSSBytes:   n.Use.RSS,
		Started:    e.Clock.Wall(n.ID.Start),
		Exited:     e.Clock.Wall(n.Exited),
		Evidence:   evidence(n.Evidence, tracer.Source(n.Source)),
	}
	switch n.State {
	case lineage.Unknown:
		p.State = ""
	case lineage.Zombie:
		p.RSSBytes = 0 // what was last seen of it; it holds only its PID
	}
	looks(&p, &n.Looks, !n.Ghost)
	if p.Argv = r.Argv(n.UID, n.Argv); p.Argv != nil {
		p.ArgvTruncated = n.ArgvTruncated
	}
	claims(e.Clock, &p, n.Claim, ^uint64(0))
	p.Container = Container(n.Container)
	if n.StatusKnown {
		e.end(&p, n)
	} else if n.State == lineage.Live {
		p.Stopped = Sender(e.Clock, n.Signal)
	}
	return p
}

func (e Encoder) end(p *api.Process, n *lineage.Node) {
	p.ExitCode, p.Signal = Exit(n.Status)
	p.Killer = Killer(e.Clock, n.ID, p.Signal, tracer.EntryFlags(n.Flags), n.Signal)
}

// looks adds to a process what each report of it tells; met: there was one.
func looks(p *api.Process, l *lineage.Looks, met bool) {
	p.Comm = l.Comm.String()
	if met {
		p.UID = new(int(l.UID))
	}
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

// Exit splits a wait status.
func Exit(status uint32) (code *int, signal string) {
	w := syscall.WaitStatus(status)
	if w.Signaled() {
		return nil, signalName(uint8(w.Signal()))
	}
	return new(w.ExitStatus()), ""
}

func evidence(e lineage.Evidence, source tracer.Source) *api.Evidence {
	if e == lineage.NoEvidence {
		return nil
	}
	v := &api.Evidence{Kind: e.String(), Source: source.String(), Confidence: "strong"}
	switch {
	case e == lineage.Reconciled:
		v.Source = "iterator"
	case !source.Strong():
		v.Confidence = "weak"
	}
	return v
}

func Call(k Clock, c *lineage.Call) api.Call {
	return api.Call{ID: c.ID, Tool: c.Tool, Agent: RefOrNil(c.Agent), Began: k.Wall(c.Began),
		Ended: k.Wall(c.Ended()), Claimed: true, Used: used(c.Used())}
}

// used is nil if no process of a call is known to have exited.
func used(u lineage.Used) *api.Used {
	if u.Processes == 0 {
		return nil
	}
	return &api.Used{Processes: u.Processes, CPUSeconds: seconds(u.CPUTime),
		PeakRSSBytes: u.MaxRSS, Largest: u.Comm.String()}
}

// claims adds to a process what members had said of it at a time: the ends of calls come later.
func claims(k Clock, p *api.Process, c *lineage.Claim, at uint64) {
	if c == nil {
		return
	}
	if t := &c.Trace; *t != (lineage.Trace{}) {
		p.Trace = &api.Trace{
			TraceID: hex.EncodeToString(t.ID[:]), SpanID: hex.EncodeToString(t.Span[:]),
			Sampled: t.Sampled, From: Ref(t.From), Claimed: true,
		}
	}
	for _, x := range c.Calls {
		call := Call(k, x)
		call.Used = nil // it would be in the document of each process
		if x.Ended() > at {
			call.Ended = nil
		}
		p.Calls = append(p.Calls, call)
	}
}

// Container is a container in documents; nil stays nil.
func Container(c *lineage.Container) *api.Container {
	if c == nil {
		return nil
	}
	return &api.Container{ID: c.ID, Name: c.Name, Image: c.Image, Runtime: c.Runtime,
		Pod: c.Pod, Namespace: c.Namespace}
}
