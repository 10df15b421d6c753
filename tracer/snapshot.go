//go:build linux

package tracer

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
)

// The flags of a snapshot record, SEEN_* of bpf/lineage.h.
const (
	seenDead = 1 << iota
	seenZombie
	seenKernel
	seenThread
	seenKilled
	seenStopped
	seenStopping
)

// Snapshot calls each for every member of the session, including members of nested
// sessions, or for every thread group of the host if id is 0. The walk is the kernel's
// own (iter/task): a process that lives through all of it is included. The Process is
// valid only until each returns.
func (t *Tracer) Snapshot(id SessionID, each func(*Process) error) error {
	t.verbs.Lock()
	raw, err := t.walk(id)
	t.verbs.Unlock()
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return records(raw, each)
}

// records calls each for the processes of a walk, and gives its buffer back.
func records(b *bytes.Buffer, each func(*Process) error) error {
	defer buffers.Put(b)
	const size = int(unsafe.Sizeof(bpf.LineageSeen{}))
	raw := b.Bytes()
	if len(raw)%size != 0 {
		return fmt.Errorf("snapshot: %d bytes are not a multiple of the record size %d", len(raw), size)
	}
	page := uint64(os.Getpagesize())
	// Threads may or may not follow their leader, because PIDs wrap: sum them up first.
	threads := map[uint32]uint64{}
	for b := raw; len(b) > 0; b = b[size:] {
		if s, _ := view[bpf.LineageSeen](b); s.SeenFlags&seenThread != 0 {
			threads[s.Process.Tgid] += s.CpuTime
		}
	}
	for b := raw; len(b) > 0; b = b[size:] {
		s, _ := view[bpf.LineageSeen](b)
		if s.SeenFlags&seenThread != 0 {
			continue
		}
		p := process(&s, page)
		p.CPUTime += threads[p.PID]
		if err := each(&p); err != nil {
			return err
		}
	}
	return nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// walk makes the snapshot. The caller holds t.verbs.
func (t *Tracer) walk(id SessionID) (*bytes.Buffer, error) {
	atomic.StoreUint64(&t.control.shared.Filter, uint64(id))
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b, t.iterate(bpf.LineageProgSnapshot, b)
}

// iterate runs an iterator program over all that it walks, and writes its output to w.
func (t *Tracer) iterate(program string, w io.Writer) error {
	it, err := link.AttachIter(link.IterOptions{Program: t.programs[program]})
	if err != nil {
		return fmt.Errorf("make the iterator: %w", err)
	}
	defer it.Close()
	r, err := it.Open()
	if err != nil {
		return fmt.Errorf("open the iterator: %w", err)
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("read the iterator: %w", err)
	}
	return nil
}

func process(s *bpf.LineageSeen, page uint64) Process {
	p := Process{
		Identity: identity(s.Process),
		Parent:   identity(s.Parent),
		PGID:     s.Pgid,
		SID:      s.Sid,
		Looks:    looks(&s.Facts, s.Cgroup),
		Threads:  s.Threads,
		NSPID:    s.NsPid,
		Dead:     s.SeenFlags&seenDead != 0,
		Zombie:   s.SeenFlags&seenZombie != 0,
		Kernel:   s.SeenFlags&seenKernel != 0,
		Killed:   s.SeenFlags&seenKilled != 0,
		Stopped:  s.SeenFlags&seenStopped != 0,
		Stops:    s.SeenFlags&seenStopping != 0,
		CPUTime:  s.CpuTime,
		RSS:      uint64(max(s.Rss, 0)) * page,
		Exec:     s.Exec,
	}
	if s.Entry.Start == s.Process.Start {
		p.Session = SessionID(s.Entry.Session)
		p.Since = s.Entry.Since
		p.Creator = Identity{PID: s.Entry.Creator.Tgid, Start: s.Entry.Creator.Start}
		p.Evidence, p.Source = evidence(s.Entry.Evidence)
		p.Flags = EntryFlags(s.Entry.Flags)
	}
	return p
}
