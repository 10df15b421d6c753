//go:build linux

package tracer

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// bytesOf is v as it is stored in the ring.
func bytesOf[T any](v T) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

func header(t EventType) bpf.LineageEventHeader {
	return bpf.LineageEventHeader{
		Type: uint16(t), Cpu: 1, Flags: uint32(FlagRoot), Seq: 2, Time: 3,
		Process: bpf.LineageIdentity{Tgid: 4, Start: 5}, Session: 6,
	}
}

func execRecord(name, args, trace string) []byte {
	e := bpf.LineageEventExec{
		H: header(EventExec), FilenameLen: uint16(len(name)), ArgvLen: uint16(len(args)), TraceLen: uint16(len(trace)),
		Facts: bpf.LineageFacts{Uid: 7, Comm: [16]uint8{'x'}},
	}
	return append(bytesOf(e), name+args+trace...)
}

func TestDecode(t *testing.T) {
	id := Identity{PID: 8, Start: 9}
	wire := wireIdentity(id)
	base := Event{CPU: 1, Flags: FlagRoot, Seq: 2, Time: 3, Process: Identity{PID: 4, Start: 5}, Session: 6}
	birth, exec, exit, reparent, reaped, session := base, base, base, base, base, base
	birth.Type, birth.Creator, birth.Parent, birth.Evidence, birth.UID, birth.Cgroup = EventBirth, id, id, EvidenceFork, 7, 10
	exec.Traceparent = []byte("00-1")
	exec.Type, exec.Filename, exec.Argv, exec.UID, exec.Comm = EventExec, []byte("/bin/x"), []byte("x\x00y\x00"), 7, Comm{'x'}
	exit.Type, exit.ExitStatus, exit.CPUTime, exit.MaxRSS = EventExit, 256, 11, 2*pageSize
	reparent.Type, reparent.From, reparent.Parent = EventReparent, Identity{PID: 12, Start: 13}, id
	reaped.Type = EventReaped
	session.Type, session.State, session.Cause = EventSession, StateCondemned, CauseEnd
	killed, unknown, stop := exit, exit, base
	killed.Signal = &Signal{Number: 15, Sender: ByProcess, Time: 16, By: id, Session: 17, UID: 7, Comm: "x", Handled: true}
	stop.Type, stop.Signal = EventStop, &Signal{Number: 19, Sender: ByKernel, Time: 16}
	crossing := base
	crossing.Type, crossing.Crossing = EventCrossing, &Crossing{Signal: 15, Refused: true, To: id, Session: 17, UID: 7, Comm: "x"}
	moved := base
	moved.Type, moved.Moved = EventMoved, &Moved{Cgroup: 10, Path: "/a", By: id, Session: 17, UID: 7, Comm: "x"}
	plain := bpf.LineageEventExit{H: header(EventExit), Status: 256, CpuTime: 11, MaxRss: 2}
	told := plain
	told.Killed = 1
	sent := bpf.LineageSent{Signal: 15, From: 1, Time: 16, By: wire, Session: 17, Facts: bpf.LineageFacts{Uid: 7, Comm: [16]uint8{'x'}},
		Flags: uint16(bpf.LineageSentFlagsSENT_HANDLED)}
	listen, unlisten := base, base
	listen.Type, listen.Socket, listen.Address = EventListen, 14, netip.MustParseAddrPort("127.0.0.1:80")
	unlisten.Type, unlisten.Socket, unlisten.Address = EventUnlisten, 14, netip.MustParseAddrPort("[::1]:0")

	for name, c := range map[string]struct {
		raw  []byte
		want Event
	}{
		"birth":    {bytesOf(bpf.LineageEventBirth{H: header(EventBirth), Creator: wire, Parent: wire, Evidence: 2, Facts: bpf.LineageFacts{Uid: 7}, Cgroup: 10}), birth},
		"exec":     {execRecord("/bin/x", "x\x00y\x00", "00-1"), exec},
		"exit":     {bytesOf(plain), exit},
		"killed":   {bytesOf(bpf.LineageEventKilled{X: told, Killer: sent}), killed},
		"unknown":  {bytesOf(bpf.LineageEventKilled{X: told}), unknown},
		"stop":     {bytesOf(bpf.LineageEventStop{H: header(EventStop), Sent: bpf.LineageSent{Signal: 19, From: 2, Time: 16}}), stop},
		"crossing": {bytesOf(bpf.LineageEventCrossing{H: header(EventCrossing), To: wire, Session: 17, Signal: 15, Refused: 1, Facts: bpf.LineageFacts{Uid: 7, Comm: [16]uint8{'x'}}}), crossing},
		"moved":    {bytesOf(bpf.LineageEventMoved{H: header(EventMoved), Cgroup: 10, By: wire, Session: 17, Facts: bpf.LineageFacts{Uid: 7, Comm: [16]uint8{'x'}}, Path: [256]uint8{'/', 'a'}}), moved},
		"reparent": {bytesOf(bpf.LineageEventReparent{H: header(EventReparent), From: bpf.LineageIdentity{Tgid: 12, Start: 13}, To: wire}), reparent},
		"reaped":   {bytesOf(bpf.LineageEventReaped{H: header(EventReaped)}), reaped},
		"session":  {bytesOf(bpf.LineageEventSession{H: header(EventSession), State: 3, Cause: 3}), session},
		"listen": {bytesOf(bpf.LineageEventListen{H: header(EventListen), Socket: 14, Listener: bpf.LineageListener{
			Family: unix.AF_INET, Port: 80, Address: [16]uint8{127, 0, 0, 1}}}), listen},
		"unlisten": {bytesOf(bpf.LineageEventListen{H: header(EventUnlisten), Socket: 14, Listener: bpf.LineageListener{
			Family: unix.AF_INET6, Address: [16]uint8{15: 1}}}), unlisten},
	} {
		t.Run(name, func(t *testing.T) {
			var got Event
			require.NoError(t, decode(c.raw, &got))
			if !bytes.Equal(got.Filename, c.want.Filename) || !bytes.Equal(got.Argv, c.want.Argv) || !bytes.Equal(got.Traceparent, c.want.Traceparent) {
				t.Errorf("filename %q, argv %q, traceparent %q", got.Filename, got.Argv, got.Traceparent)
			}
			got.Traceparent, c.want.Traceparent = nil, nil
			if (got.Signal == nil) != (c.want.Signal == nil) || got.Signal != nil && *got.Signal != *c.want.Signal {
				t.Errorf("signal %+v, want %+v", got.Signal, c.want.Signal)
			}
			if (got.Crossing == nil) != (c.want.Crossing == nil) || got.Crossing != nil && *got.Crossing != *c.want.Crossing {
				t.Errorf("crossing %+v, want %+v", got.Crossing, c.want.Crossing)
			}
			if (got.Moved == nil) != (c.want.Moved == nil) || got.Moved != nil && *got.Moved != *c.want.Moved {
				t.Errorf("moved %+v, want %+v", got.Moved, c.want.Moved)
			}
			sender := got.Signal != nil || got.Crossing != nil || got.Moved != nil // which a session has few of
			got.Crossing, c.want.Crossing, got.Moved, c.want.Moved = nil, nil, nil, nil
			got.Filename, got.Argv, got.Signal, c.want.Filename, c.want.Argv, c.want.Signal = nil, nil, nil, nil, nil, nil
			if !equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if n := testing.AllocsPerRun(100, func() { _ = decode(c.raw, &got) }); n != 0 && !sender {
				t.Errorf("%v allocations", n)
			}
			for n := range c.raw {
				if err := decode(c.raw[:n], &got); !errors.Is(err, ErrMalformed) {
					t.Fatalf("%d of %d bytes: %v", n, len(c.raw), err)
				}
			}
		})
	}
	require.ErrorIs(t, decode(bytesOf(header(99)), new(Event)), ErrMalformed, "type 99")
}

// equal compares events whose slices are nil.
func equal(a, b Event) bool {
	return bytes.Equal(bytesOf(a), bytesOf(b))
}

func FuzzDecode(f *testing.F) {
	f.Add(execRecord("/bin/x", "x\x00y\x00", "00-1"))
	f.Add(bytesOf(bpf.LineageEventBirth{H: header(EventBirth)}))
	f.Add(bytesOf(bpf.LineageEventExit{H: header(EventExit)}))
	f.Add(bytesOf(bpf.LineageEventSession{H: header(EventSession)}))
	f.Add(bytesOf(bpf.LineageEventListen{H: header(EventListen), Listener: bpf.LineageListener{Family: unix.AF_INET6}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ev Event
		if err := decode(raw, &ev); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if len(ev.Filename)+len(ev.Argv) > len(raw) {
			t.Fatal("more than there was")
		}
		_ = ev.State.String() + ev.Cause.String() + ev.Evidence.String() + ev.Comm.String() + ev.Session.String()
	})
}

// What the object's BTF has no holes in is the same in Go, whose types bpf2go makes of it.
func TestLayout(t *testing.T) {
	spec, err := bpf.LoadLineage()
	require.NoError(t, err)
	for _, name := range []string{
		"entry", "session", "ctl", "shared", "verb_args", "event_birth", "event_exec", "event_exit",
		"event_reparent", "event_session", "event_listen", "listener", "seen",
	} {
		var s *btf.Struct
		require.NoError(t, spec.Types.TypeByName(name, &s))
		var end uint32
		for _, m := range s.Members {
			n, err := btf.Sizeof(m.Type)
			require.NoError(t, err)
			if m.Offset.Bytes() != end {
				t.Errorf("struct %s has a hole before %s", name, m.Name)
			}
			end = m.Offset.Bytes() + uint32(n)
		}
		if end != s.Size {
			t.Errorf("struct %s has a hole at its end", name)
		}
	}
	if off := spec.Variables[bpf.LineageVarControl].Offset; off%8 != 0 {
		t.Errorf("control at offset %d of .bss", off)
	}
}

func TestSessionIDString(t *testing.T) {
	for id, want := range map[SessionID]string{
		0:                           "000000",
		SessionID(1) << 32:          "000001",
		SessionID(31)<<32 | 9:       "00000z",
		SessionID(0x3fffffff) << 32: "zzzzzz",
	} {
		if got := id.String(); got != want {
			t.Errorf("%x is %s, want %s", uint64(id), got, want)
		}
	}
}
