//go:build linux

package attribution

import (
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A companion session counts as strong, so that its processes end with the session for which they
// work, only if all that is in it is known, and none of it is there on weak evidence.
func TestWeigh(t *testing.T) {
	for name, c := range map[string]struct {
		found    []attributed
		overflow bool
		strong   bool
	}{
		"strong":              {[]attributed{{Source: tracer.SourceEnv}}, false, true},
		"one is weak":         {[]attributed{{Source: tracer.SourceEnv}, {Source: tracer.SourceSocket}}, false, false},
		"more than is known":  {[]attributed{{Source: tracer.SourceEnv}}, true, false},
		"weak somewhere else": {[]attributed{{Source: tracer.SourceSocket, Session: 99}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := registrytest.New(t)
			a := New(Options{Options: rules.Options{Ground: registry.Ground{Kernel: f.K, Registry: f.R}}})
			f.Run()
			s, companion := f.Session(100, 1000), f.Session(200, 1000)
			for i := range c.found {
				if c.found[i].Session == 0 {
					c.found[i].Session = companion.ID()
				}
			}
			f.Update(func(tx registry.Tx) {
				*a.of(companion.ID()) = brokered{For: s.ID(), Weak: true}
				*a.of(s.ID()) = brokered{Found: c.found, Overflow: c.overflow}
				a.weigh(tx.View, companion.ID())
				if a.of(companion.ID()).Weak == c.strong {
					t.Errorf("weak: %v", !c.strong)
				}
			})
		})
	}
}
