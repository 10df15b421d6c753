package picture

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// The daemon samples CPU times once a second. After idleAfter without a change a
// process was idle; if it wakes up, it used the new time within the last sample.
const (
	samplePeriod = time.Second
	idleAfter    = 3 * time.Second
)

// usage is the CPU time of a row, and its CPU usage in percent.
type usage struct {
	seconds float64
	at      api.U64 // boottime of the change
	percent float64
}

// note records the CPU time at a boottime. The first value says nothing about the current usage.
func (u *usage) note(seconds float64, at api.U64) {
	if at <= u.at || seconds == u.seconds {
		return
	}
	if u.at != 0 && seconds > u.seconds {
		over := time.Duration(at - u.at)
		if over > idleAfter {
			over = samplePeriod
		}
		u.percent = (seconds - u.seconds) / over.Seconds() * 100
	} else {
		u.percent = 0
	}
	u.seconds, u.at = seconds, at
}

// CPU is how much of one CPU the row uses now, in percent.
func (p *Picture) CPU(r *Row) float64 {
	if r.usage.at+api.U64(idleAfter) < p.now {
		return 0
	}
	return r.usage.percent
}

// RSS is the row's memory in bytes.
func (r *Row) RSS() uint64 {
	switch {
	case r.Kind == SessionRow:
		return r.Session.RSSBytes
	case r.Process.State == api.StateLive:
		return r.Process.RSSBytes
	}
	return 0
}

func (r *Row) Listens() []int {
	if r.Kind == SessionRow {
		return r.Session.Ports
	}
	return r.Ports
}

// Age is the age of the row, or its lifetime if it is over. A zombie grows older until it is reaped.
func (p *Picture) Age(r *Row) time.Duration {
	switch {
	case r.Kind == SessionRow && r.Session.Started == nil, r.Kind == SessionRow && r.start == 0:
		return 0
	case r.Kind == SessionRow && r.Session.Ended != nil:
		return r.Session.Ended.Sub(*r.Session.Started)
	case r.Kind == ProcessRow && r.Process.State != api.StateZombie &&
		r.Process.Exited != nil && r.Process.Started != nil:
		return r.Process.Exited.Sub(*r.Process.Started)
	case p.now < r.start:
		return 0
	}
	return time.Duration(p.now - r.start)
}

func (p *Picture) Listening() bool { return len(p.listening) > 0 }

// SetPorts sets which processes listen on which ports; all others listen on none.
func (p *Picture) SetPorts(ports map[api.Ref][]int) {
	for ref := range p.listening {
		if r := p.processes[ref]; r != nil && ports[ref] == nil {
			r.Ports = nil
			p.rematch(r)
		}
	}
	p.listening = ports
	for ref, all := range ports {
		if r := p.processes[ref]; r != nil {
			r.Ports = all
			p.rematch(r)
		}
	}
}
