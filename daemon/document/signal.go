package document

import (
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// Sender is who sent a signal; nil stays nil.
func Sender(c Clock, s *lineage.Signal) *api.Sender {
	if s == nil {
		return nil
	}
	doc := &api.Sender{Signal: signalName(s.Number), Kind: s.Sender.String(),
		Time: c.Wall(s.Time), Handled: s.Handled, Raised: s.Raised, Passed: s.Passed}
	if o := s.OOM; o != nil {
		doc.OOM = &api.OOM{Of: o.Of, Session: word(o.Session), Name: o.Name,
			LimitBytes: o.Limit, PeakBytes: o.Peak, RSSBytes: o.Had}
	}
	if s.Sender.ByAnother() {
		doc.Process = &api.Process{Ref: Ref(s.By), Comm: s.Comm, UID: new(int(s.UID)),
			Session: word(s.Session)}
	}
	return doc
}

// crossing is a signal that left a guarded session, or would have; nil stays nil.
func crossing(x *tracer.Crossing) *api.Crossing {
	if x == nil {
		return nil
	}
	to := &api.Process{Ref: Ref(x.To), Comm: x.Comm, UID: new(int(x.UID)), Session: word(x.Session)}
	return &api.Crossing{Signal: signalName(x.Signal), To: to, Refused: x.Refused}
}

// moved is a move to another cgroup; nil stays nil.
func moved(m *tracer.Moved) *api.Moved {
	if m == nil {
		return nil
	}
	doc := &api.Moved{Cgroup: m.Path, Outside: m.Outside}
	if m.By.PID != 0 {
		doc.By = &api.Process{Ref: Ref(m.By), Comm: m.Comm, UID: new(int(m.UID)), Session: word(m.Session)}
	}
	return doc
}

// Killer is who sent the signal that a process died of, or that it handled before it exited. The
// kernel side does not report its own signals: it marks the process before it sends them. A process
// that handled ours may send it to itself, as npm does.
func Killer(c Clock, id lineage.ID, died string, flags tracer.EntryFlags, s *lineage.Signal) *api.Sender {
	switch {
	case s != nil && s.By == id && s.Number == uint8(unix.SIGTERM) && flags&tracer.FlagTermed != 0:
		return &api.Sender{Signal: "SIGTERM", Kind: lineage.ByLineage.String(),
			Handled: true, Raised: true}
	case s != nil:
		return Sender(c, s)
	case died == "SIGKILL" && flags&tracer.FlagKilled != 0,
		died == "SIGTERM" && flags&tracer.FlagTermed != 0:
		return &api.Sender{Signal: died, Kind: lineage.ByLineage.String()}
	}
	return nil
}

// signalName is the name of a signal; those of real time are numbered as kill -l does.
func signalName(n uint8) string {
	const first, last = 34, 64
	switch name := unix.SignalName(unix.Signal(n)); {
	case name != "":
		return name
	case n >= first && n <= last:
		return "SIGRTMIN+" + strconv.Itoa(int(n)-first)
	}
	return "signal " + strconv.Itoa(int(n))
}
