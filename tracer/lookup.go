//go:build linux

package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/takeover"
	"golang.org/x/sys/unix"
)

// startCounted is START_COUNTED of bpf/lineage.h.
const startCounted = 1

func slotOf(id SessionID) uint32 { return uint32(id) }

// Lookup returns the entry of the process that has this PID; [ErrNotFound] if it has
// none. It does not prove that the process is still alive.
func (t *Tracer) Lookup(pid uint32) (Entry, error) {
	var e bpf.LineageEntry
	if err := t.maps[bpf.LineageMapProcesses].Lookup(pid, &e); err != nil {
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			err = ErrNotFound
		}
		return Entry{}, fmt.Errorf("look up pid %d: %w", pid, err)
	}
	if e.Start <= startCounted || e.Start&takeover.EntryDead != 0 { // its death is being counted, or was
		return Entry{}, fmt.Errorf("look up pid %d: %w", pid, ErrNotFound)
	}
	kind, source := evidence(e.Evidence)
	return Entry{
		Identity: Identity{PID: pid, Start: e.Start},
		Session:  SessionID(e.Session),
		Since:    e.Since,
		Creator:  Identity{PID: e.Creator.Tgid, Start: e.Creator.Start},
		Call:     e.Creator.Call,
		Evidence: kind,
		Source:   source,
		Flags:    EntryFlags(e.Flags),
	}, nil
}

// Running is what the kernel says of the file that a process executes.
type Running struct {
	File   bool // it is the file at the path that was asked about
	Inside bool // the process is in a user namespace other than the initial one
}

// Runs reports whether a process, or the one that has the PID now if its start is 0,
// executes the file at path in our mount namespace. The file is that of its last exec; if
// no exec was seen it is the present one, which a process can exchange. [ErrNotFound]: the
// process is gone.
func (t *Tracer) Runs(p Identity, path string) (r Running, err error) {
	// The process may have chosen the path. So nothing is opened that could act on it.
	key := procfs.FS("/proc").Key(p.PID)
	f, err := procfs.Bounded(key, func() (*os.File, error) { return os.OpenFile(path, unix.O_PATH, 0) })
	if errors.Is(err, procfs.ErrStuck) {
		return r, fmt.Errorf("compare the file of %v: %w", p, err)
	}
	defer f.Close()
	args := bpf.LineageVerbArgs{Root: wireIdentity(p), Flags: uint32(f.Fd())} // no file: no such descriptor
	if err := t.verb(bpf.LineageProgVerbRuns, &args); err != nil {
		return r, fmt.Errorf("compare the file of %v: %w", p, err)
	}
	return Running{
		File:   args.Flags&uint32(bpf.LineageRunsRUNS_FILE) != 0,
		Inside: args.Flags&uint32(bpf.LineageRunsRUNS_INSIDE) != 0,
	}, nil
}

// Listeners calls each for every TCP socket that a member listens on, as an [EventListen]. It
// leaves out sockets that were inherited from outside, passed on, or opened before an adoption.
func (t *Tracer) Listeners(each func(*Event)) error {
	err := takeover.Each(t.maps[bpf.LineageMapListeners], func(socket uint64, l *bpf.LineageListener) {
		each(&Event{
			Type: EventListen, Time: l.Since, Process: identity(l.Process), Session: SessionID(l.Session),
			Socket: socket, Since: l.Since, Address: addrPort(l),
		})
	})
	if err != nil {
		return fmt.Errorf("list the listening sockets: %w", err)
	}
	return nil
}

// Deaths calls each for the processes in no session that a signal killed, as an [EventExit] with
// Looks and Signal: the last of each user for each PID modulo 256, and about 4,096 in all.
func (t *Tracer) Deaths(each func(*Event)) error {
	err := takeover.Each(t.maps[bpf.LineageMapDeaths], func(_ uint64, d *bpf.LineageDeath) {
		each(&Event{Type: EventExit, Process: Identity{PID: d.Tgid, Start: d.Sent.Start},
			Looks: looks(&d.Facts, 0), Signal: signal(&d.Sent)})
	})
	if err != nil {
		return fmt.Errorf("list deaths: %w", err)
	}
	return nil
}

// Session returns what the kernel stores about a session; [ErrNotFound].
func (t *Tracer) Session(id SessionID) (SessionInfo, error) {
	s, err := t.slot(slotOf(id))
	if err != nil {
		return SessionInfo{}, fmt.Errorf("read session %v: %w", id, err)
	}
	if id == 0 || s.ID != id {
		return SessionInfo{}, fmt.Errorf("read session %v: %w", id, ErrNotFound)
	}
	return s, nil
}

// Sessions returns every session that the kernel stores, in slot order.
func (t *Tracer) Sessions() ([]SessionInfo, error) {
	var all []SessionInfo
	for slot := range t.slots {
		if atomic.LoadUint64(&t.slots[slot].Id) == 0 {
			continue
		}
		s, err := t.slot(uint32(slot))
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		if s.ID != 0 {
			all = append(all, s)
		}
	}
	return all, nil
}

func (t *Tracer) record(slot uint32) (s bpf.LineageSession, c bpf.LineageCtl, err error) {
	err = errors.Join(t.maps[bpf.LineageMapSessions].Lookup(slot, &s),
		t.maps[bpf.LineageMapSessionCtl].Lookup(slot, &c))
	return s, c, err
}

func (t *Tracer) slot(slot uint32) (SessionInfo, error) {
	if slot >= t.maps[bpf.LineageMapSessions].MaxEntries() {
		return SessionInfo{}, ErrNotFound
	}
	s, c, err := t.record(slot)
	if err != nil {
		return SessionInfo{}, err
	}
	if s.Id != c.Id {
		return SessionInfo{}, nil // being made or released at this moment
	}
	name, _, _ := bytes.Cut(c.Name[:], []byte{0})
	var lifetime time.Duration
	if c.Expires != 0 {
		lifetime = time.Duration(c.Expires - s.Created)
	}
	info := SessionInfo{
		ID:       SessionID(s.Id),
		Parent:   t.home(SessionID(s.Parent)),
		Root:     identity(s.Root),
		Owner:    identity(s.Owner),
		UID:      c.Uid,
		State:    State(c.Status & 0xff),
		Cause:    Cause(c.Status >> 8 & 0xff),
		Grace:    time.Duration(c.Grace),
		Created:  s.Created,
		EndedAt:  c.EndedAt,
		Deadline: c.Deadline,
		Expires:  c.Expires,
		Paused:   c.Paused,

		MaxProcesses:   c.MaxProcesses,
		MaxLifetime:    lifetime,
		MaxRSS:         c.MaxRss,
		Idle:           time.Duration(c.Idle),
		KeepOnRootExit: c.Flags&sessionKeepOnRootExit != 0,
		Kept:           c.Flags&sessionKept != 0,
		Agent:          c.Flags&sessionAgent != 0,
		Joined:         c.Flags&sessionJoined != 0,
		Rule:           c.Rule,
		Nested:         c.Nested,
		Drifted:        c.Flags&sessionDrifted != 0,
		Unentered:      c.Unentered,
		Live:           s.Live,
		Dying:          s.Dying,
		Unreaped:       s.Held - s.Live,
		Forks:          s.Forks,
		Peak:           s.Peak,
		Emptied:        s.Emptied,
	}
	switch {
	case c.Flags&sessionGuarded != 0:
		info.Guard = GuardOn
	case c.Flags&sessionUnguarded != 0:
		info.Guard = GuardOff
	}
	if c.Flags&sessionSpares != 0 {
		info.Spare = SpareRecord + Spare(c.Flags&sessionRefuses/sessionRefuses)
	}
	info.setFromKernelName(string(name))
	return info, nil
}

// home returns a session, or the innermost session around it that was not dissolved,
// like home_of of bpf/session.h.
func (t *Tracer) home(id SessionID) SessionID {
	for range MaxDepth {
		s, c, err := t.record(slotOf(id))
		if id == 0 || err != nil || SessionID(c.Id) != id {
			break
		}
		if State(c.Status&0xff) != StateDissolved {
			return id
		}
		id = SessionID(s.Parent)
	}
	return 0
}
