//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/daemon/pace"
	"github.com/lineage-ebpf/lineage/tracer"
)

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
	if err != nil || want == WantNone {
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
