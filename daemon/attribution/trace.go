//go:build linux

package attribution

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const (
	// maxTraced bounds how much of an environment is read. A variable beyond that is not found.
	maxTraced = 128 << 10
	// readers is how many read at once: a member can delay one of them, by what it does
	// with its memory.
	readers = 8
	maxWait = 1024 // programs that wait to be read
	maxBorn = 4096 // children of agents that have not executed a program yet
)

// program is a process that has executed its first program.
type program struct {
	id      tracer.Identity
	session tracer.SessionID
	trace   *lineage.Trace // that the kernel read at the exec; nil: it is read now
}

// born notes the child of an agent: of the session's root, or of a process named by marks.
func (m *Marks) born(s *registry.Session, b *book, ev *tracer.Event) {
	if !m.policy().AcceptsTrace() || ev.Creator != s.Info().Root && !b.named(ev.Creator) {
		return
	}
	if len(m.unread) == maxBorn {
		clear(m.unread) // their events were lost
	}
	m.unread[ev.Process] = true
}

func (m *Marks) execed(_ registry.View, _ *registry.Session, ev *tracer.Event) {
	if !m.unread[ev.Process] {
		return
	}
	delete(m.unread, ev.Process)
	p := program{id: ev.Process, session: ev.Session}
	if t, ok := parseTrace(ev.Traceparent); ok {
		t.From, p.trace = ev.Process, &t
	}
	system.Offer(m.asked, p)
}

// Run reads the variable TRACEPARENT of the children of agents, once for each, until ctx is done. It does not wait for a reader that a member delays.
func (m *Marks) Run(ctx context.Context) {
	for range readers {
		go m.Registry.Guard(func() { m.read(ctx) })
	}
	<-ctx.Done()
}

func (m *Marks) read(ctx context.Context) {
	var buffer []byte
	for ctx.Err() == nil {
		var p program
		select {
		case <-ctx.Done():
			return
		case p = <-m.asked:
		}
		if buffer == nil {
			buffer = make([]byte, maxTraced)
		}
		if p.trace == nil {
			var err error
			p.trace, err = procfs.Bounded(m.Proc.Key(p.id.PID),
				func() (*lineage.Trace, error) { return m.traceOf(p.id, buffer), nil })
			if errors.Is(err, procfs.ErrStuck) {
				buffer = nil // it may still be written to
			}
		}
		if p.trace == nil {
			continue
		}
		err := m.Registry.Update(func(t registry.Tx) {
			c := &lineage.Claim{Trace: *p.trace}
			if claim, _ := t.Graph().Claim(p.id); claim != nil {
				c.Calls = claim.Calls
			}
			m.claim(t, p, c)
		})
		if err != nil {
			return // the daemon stops
		}
	}
}

// claim changes what is claimed of a process, and of what has that from it.
func (m *Marks) claim(t registry.Tx, p program, c *lineage.Claim) {
	ev := tracer.Event{Type: tracer.EventTrace, Time: m.Clock.Boottime(),
		Process: p.id, Session: p.session, Claim: c}
	if n, known := t.Graph().Node(p.id); known {
		ev.Comm = n.Comm
		t.Apply([]tracer.Event{ev})
	}
}

// traceOf reads the variable of a process, nil if it has no valid one. Nothing else of its environment
// is kept.
func (m *Marks) traceOf(id tracer.Identity, buffer []byte) *lineage.Trace {
	f, err := os.Open(m.Proc.Path(id.PID, "environ"))
	if err != nil {
		return nil
	}
	defer f.Close()
	n, _ := io.ReadFull(f, buffer)
	defer clear(buffer[:n])
	t, ok := parseTrace(variable(buffer[:n], "TRACEPARENT"))
	// The file was opened by PID: was it still this process?
	if now, err := m.Kernel.Identify(id.PID); !ok || err != nil || now != id {
		return nil
	}
	t.From = id
	return &t
}

// variable is the first value of a name, as for getenv(3).
func variable(environ []byte, name string) []byte {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if key, value, ok := bytes.Cut(entry, []byte{'='}); ok && string(key) == name {
			return value
		}
	}
	return nil
}

// parseTrace parses a traceparent as W3C Trace Context defines it: version, trace, span and flags, in
// lower case. A version after 00 may have more after them. False: it is invalid, or all zero.
func parseTrace(text []byte) (t lineage.Trace, ok bool) {
	const length = len("00-00112233445566778899aabbccddeeff-0011223344556677-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return t, false
	}
	var version, flags [1]byte
	for _, field := range [...]struct{ to, from []byte }{
		{version[:], text[:2]}, {t.ID[:], text[3:35]}, {t.Span[:], text[36:52]}, {flags[:], text[53:55]},
	} {
		if _, err := hex.Decode(field.to, field.from); err != nil ||
			!bytes.Equal(field.from, bytes.ToLower(field.from)) {
			return lineage.Trace{}, false
		}
	}
	if version[0] == 0xff || len(text) > length && (version[0] == 0 || text[length] != '-') ||
		t.ID == [16]byte{} || t.Span == [8]byte{} {
		return lineage.Trace{}, false
	}
	t.Sampled = flags[0]&1 != 0
	return t, true
}
