//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// due reports whether the look of this period is needed. Without a session, or the kernel's record of one
// that is over, it is not, unless a feature wants it.
func (p *sampler) due() bool {
	r := p.registry
	var heard uint64
	want := WantNone
	err := r.Update(func(Tx) {
		heard, want = r.counts.heard, r.view().wanted()
		switch {
		case r.view().Live() > 0:
			want = max(want, p.pressing())
		case len(p.unreleased) > 0:
			want = max(want, WantSome)
		}
	})
	if p.sleep.Set(want == WantNone); err != nil || want == WantNone {
		return false
	}
	return p.quiet.Due(heard, system.Births(string(r.o.Proc))) || want == WantEach
}

// pressing is what looks live sessions want, in the registry's goroutine: one each period
// while a reader watches, and where only a look shows that the end of a session is due.
func (p *sampler) pressing() Want {
	if p.watched || p.registry.o.Kernel.Features().Level < 3 {
		return WantEach
	}
	now := p.registry.o.Clock.Boottime()
	for _, s := range p.registry.sessions {
		if !s.closed && (s.info.State != tracer.StateActive || s.info.Expires != 0 && s.info.Expires <= now) {
			return WantEach
		}
	}
	return WantSome
}
