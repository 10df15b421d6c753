//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/daemon/pace"
	"github.com/lineage-ebpf/lineage/tracer"
)

// awake reports whether the period is one to read the kernel's counters, and perhaps to look: few are
// without a session.
func (p *sampler) awake() bool {
	if p.woken.Swap(false) {
		p.asleep = 0
	}
	if p.asleep == 0 {
		return true
	}
	p.asleep++
	return p.asleep%pace.LooksApart == 0
}

// due reports whether the period's look is needed. Without a session none is, unless a feature
// wants it.
func (p *sampler) due() bool {
	o := p.registry
	var heard uint64
	want := WantNone
	err := o.do(func() {
		heard, want = o.heard, o.view().wanted()
		if o.live() > 0 {
			want = max(want, p.pressing())
		}
	})
	p.asleep = 0
	if err != nil || want == WantNone {
		p.asleep = 1
		return false
	}
	return p.quiet.Due(heard, pace.Births(string(o.proc))) || want == WantEach
}

// pressing is what looks live sessions want, in the registry's goroutine: each period's while
// somebody watches, and where only a look shows that a session is due.
func (p *sampler) pressing() Want {
	if p.watched || p.registry.kernel.Features().Level < 3 {
		return WantEach
	}
	now := p.registry.clock.Boottime()
	for _, s := range p.registry.sessions {
		if !s.closed && (s.info.State != tracer.StateActive || s.info.Expires != 0 && s.info.Expires <= now) {
			return WantEach
		}
	}
	return WantSome
}
