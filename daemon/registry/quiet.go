//go:build linux

package registry

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// A look shows what no event tells: who was born outside of the sessions, what members use, and
// what was missed. After something happened looksAfter periods bring one each: a newborn process is
// looked at several times. Then only each looksApart-th does, until something happens again.
const (
	looksAfter = 4
	looksApart = 8
)

// quiet knows how long nothing has happened that the next look would show.
type quiet struct {
	heard   uint64 // events
	born    []byte // what the host says of its births
	periods int    // without a new event or birth
}

// due counts a period, and reports whether it brings a look.
func (q *quiet) due(heard uint64, born []byte) bool {
	if heard != q.heard || !bytes.Equal(born, q.born) {
		q.heard, q.born, q.periods = heard, born, 0
	}
	q.periods++
	return q.periods <= looksAfter || q.periods%looksApart == 0
}

// due reports whether the period's look is needed. Without a session none is, unless a feature
// wants it.
func (p *sampler) due() bool {
	o := p.registry
	var heard uint64
	some, pressing := false, false
	err := o.do(func() {
		v := o.view()
		heard, some, pressing = o.heard, v.walking() || o.live() > 0, o.pressing()
	})
	if err != nil || !some {
		return false
	}
	return p.quiet.due(heard, births(o.proc)) || pressing
}

// pressing reports whether each period has to bring a look, whatever happens.
func (o *Registry) pressing() bool {
	if o.tracked || o.kernel.Features().Level < 3 {
		return true // somebody watches; or only looks notice that a session is due
	}
	now := o.clock.Boottime()
	for _, s := range o.sessions {
		if !s.closed && (s.info.State != tracer.StateActive || s.info.Expires != 0 && s.info.Expires <= now) {
			return true
		}
	}
	for _, h := range o.hooks {
		if h.Pressing != nil && h.Pressing(o.view()) {
			return true
		}
	}
	return false
}

// births is the number of tasks and the last PID of the host, which change when a process is born.
func births(proc procfs.FS) []byte {
	b, err := os.ReadFile(filepath.Join(string(proc), "loadavg"))
	if err != nil {
		return nil
	}
	_, tasks, _ := bytes.Cut(b, []byte{'/'}) // "0.20 0.18 0.12 1/80 11206"
	return tasks
}
