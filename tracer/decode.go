//go:build linux

package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// ErrMalformed says that this version does not know a record of the ring buffer. The record must
// be counted and skipped.
var ErrMalformed = errors.New("malformed event")

var pageSize = uint64(os.Getpagesize())

// view copies a T from the front of b; b may be longer. False: b is too short.
func view[T any](b []byte) (v T, ok bool) {
	size := unsafe.Sizeof(v)
	if uintptr(len(b)) < size {
		return v, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), size), b)
	return v, true
}

// decode reads one record into ev. Filename and Argv alias b.
func decode(b []byte, ev *Event) error {
	h, ok := view[bpf.LineageEventHeader](b)
	if !ok {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	*ev = Event{
		Type:    EventType(h.Type),
		CPU:     h.Cpu,
		Seq:     h.Seq,
		Time:    h.Time,
		Process: identity(h.Process),
		Session: SessionID(h.Session),
		Flags:   EntryFlags(h.Flags),
	}
	switch ev.Type {
	case EventBirth:
		ok = decodeBirth(b, ev)
	case EventExec:
		ok = decodeExec(b, ev)
	case EventExit:
		ok = decodeExit(b, ev)
	case EventReparent:
		ok = decodeReparent(b, ev)
	case EventReaped:
	case EventSession:
		ok = decodeSession(b, ev)
	case EventStop, EventContinue:
		ok = decodeStop(b, ev)
	case EventCrossing:
		ok = decodeCrossing(b, ev)
	case EventMoved:
		ok = decodeMoved(b, ev)
	case EventListen, EventUnlisten:
		ok = decodeListen(b, ev)
	default:
		return fmt.Errorf("%w: type %d", ErrMalformed, h.Type)
	}
	if !ok {
		return fmt.Errorf("%w: type %d in %d bytes", ErrMalformed, h.Type, len(b))
	}
	return nil
}

func decodeBirth(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventBirth](b)
	ev.Creator = identity(e.Creator)
	ev.Parent = identity(e.Parent)
	ev.Evidence, ev.Source = evidence(e.Evidence)
	ev.Looks = looks(&e.Facts, e.Cgroup)
	return ok
}

func decodeExec(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventExec](b)
	if !ok {
		return false
	}
	tail := b[unsafe.Sizeof(e):]
	name, args := int(e.FilenameLen), int(e.ArgvLen)
	if name+args+int(e.TraceLen) > len(tail) {
		return false
	}
	ev.Traceparent = tail[name+args:][:e.TraceLen]
	ev.Filename = tail[:name]
	ev.Argv = tail[name : name+args]
	ev.ArgvTruncated = e.Truncated != 0
	ev.Looks = looks(&e.Facts, e.Cgroup)
	return true
}

func looks(f *bpf.LineageFacts, cgroup uint64) Looks {
	return Looks{Comm: f.Comm, UID: f.Uid, Cgroup: cgroup}
}

func decodeExit(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventExit](b)
	ev.ExitStatus = e.Status
	ev.CPUTime = e.CpuTime
	ev.MaxRSS = e.MaxRss * pageSize
	if e.Killed != 0 {
		var k bpf.LineageEventKilled
		if k, ok = view[bpf.LineageEventKilled](b); ok && k.Killer.Signal != 0 {
			ev.Signal = signal(&k.Killer)
		}
	}
	return ok
}

func decodeStop(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventStop](b)
	ev.Signal = signal(&e.Sent)
	return ok
}

func decodeCrossing(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventCrossing](b)
	ev.Crossing = &Crossing{
		Signal: e.Signal, Refused: e.Refused != 0,
		To: identity(e.To), Session: SessionID(e.Session), UID: e.Facts.Uid, Comm: Comm(e.Facts.Comm).String(),
	}
	return ok
}

func decodeMoved(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventMoved](b)
	path, _, _ := bytes.Cut(e.Path[:], []byte{0})
	ev.Moved = &Moved{
		Cgroup: e.Cgroup, Path: string(path),
		By: identity(e.By), Session: SessionID(e.Session), UID: e.Facts.Uid, Comm: Comm(e.Facts.Comm).String(),
	}
	return ok
}

func signal(s *bpf.LineageSent) *Signal {
	return &Signal{
		Number: s.Signal, Sender: Sender(s.From), Time: s.Time,
		By: identity(s.By), Session: SessionID(s.Session), UID: s.Facts.Uid, Comm: Comm(s.Facts.Comm).String(),
		Handled: s.Flags&uint16(bpf.LineageSentFlagsSENT_HANDLED) != 0,
		Raised:  s.Flags&uint16(bpf.LineageSentFlagsSENT_RAISED) != 0,
		Passed:  s.Flags&uint16(bpf.LineageSentFlagsSENT_PASSED) != 0,
	}
}

func decodeReparent(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventReparent](b)
	ev.From = identity(e.From)
	ev.Parent = identity(e.To)
	return ok
}

func decodeSession(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventSession](b)
	ev.State = State(e.State)
	ev.Cause = Cause(e.Cause)
	return ok
}

func decodeListen(b []byte, ev *Event) bool {
	e, ok := view[bpf.LineageEventListen](b)
	ev.Socket, ev.Since = e.Socket, e.Listener.Since
	ev.Address = addrPort(&e.Listener)
	return ok
}

// addrPort is the address that l listens on; not valid if that is neither IPv4 nor IPv6.
func addrPort(l *bpf.LineageListener) netip.AddrPort {
	switch l.Family {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(l.Address[:])), l.Port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(l.Address), l.Port)
	}
	return netip.AddrPort{}
}
