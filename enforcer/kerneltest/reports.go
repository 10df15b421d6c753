//go:build linux

package kerneltest

import (
	"maps"
	"net/netip"

	"github.com/lineage-ebpf/lineage/tracer"
)

// reports is what the kernel reports and lists.
type reports struct {
	events  []tracer.Event // not yet read
	seq     uint64
	flushed bool
	waiting bool                    // Read waits: all earlier events were taken
	sockets map[uint64]tracer.Event // that members listen on
	deaths  []tracer.Event          // of processes in no session, by signals
}

// Listen makes a process listen at an address on a socket. The kernel reports it if the
// process is a member.
func (k *Kernel) Listen(pid uint32, socket uint64, address string) {
	defer k.lock()()
	k.now++
	p := k.procs[pid]
	if p.Session == 0 {
		return
	}
	ev := tracer.Event{
		Type: tracer.EventListen, Process: p.Identity, Session: p.Session, Socket: socket,
		Address: netip.MustParseAddrPort(address), Since: uint64(k.now),
	}
	k.sockets[socket] = ev
	k.emit(ev)
}

// Unlisten closes a socket.
func (k *Kernel) Unlisten(socket uint64) {
	defer k.lock()()
	k.now++
	ev, open := k.sockets[socket]
	if !open {
		return
	}
	delete(k.sockets, socket)
	ev.Type = tracer.EventUnlisten
	k.emit(ev)
}

// Listeners calls each for the sockets that members listen on; each may ask the kernel.
func (k *Kernel) Listeners(each func(*tracer.Event)) error {
	k.cond.L.Lock()
	sockets, err := maps.Clone(k.sockets), k.fail["Listeners"]
	k.cond.L.Unlock()
	if err != nil {
		return err
	}
	for _, ev := range sockets {
		ev.Time = ev.Since
		each(&ev)
	}
	return nil
}

// Deaths calls each for the processes in no session that died with a Signal.
func (k *Kernel) Deaths(each func(*tracer.Event)) error {
	for _, ev := range k.deaths {
		each(&ev)
	}
	return nil
}

func (k *Kernel) emit(ev tracer.Event) {
	k.seq++
	ev.Seq, ev.Time = k.seq, uint64(k.now)
	k.events = append(k.events, ev)
	k.cond.Broadcast()
}

// Lose reports n lost events.
func (k *Kernel) Lose(n uint64) {
	defer k.lock()()
	k.emit(tracer.Event{Type: tracer.EventLost, Count: n})
}

// AllRead waits until every event was read and the reader waits for more.
func (k *Kernel) AllRead() {
	defer k.lock()()
	for !k.closed && (len(k.events) > 0 || k.flushed || !k.waiting) {
		k.cond.Wait()
	}
}

// DropEvents drops what was emitted and not yet read, and returns how many events that were.
func (k *Kernel) DropEvents() (n int) {
	defer k.lock()()
	n, k.events = len(k.events), nil
	return n
}
