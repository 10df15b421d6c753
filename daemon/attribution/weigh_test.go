//go:build linux

package attribution

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
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
			a := New(Options{Options: rules.Options{Ground: f.Ground()}})
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

// TestGroupOfContainer: the cgroup of a session's root is its container's, and so no evidence, if the root is in one that is a
// session: what was put into the container and has not execed yet would be held beside that session for ever.
func TestGroupOfContainer(t *testing.T) {
	f := registrytest.New(t)
	a := New(Options{Options: rules.Options{Ground: f.Ground()}})
	f.Run()
	c := claimant{brokered: brokered{UIDs: []uint32{1000}}, info: f.Session(100, 1000).Info()}
	f.K.Advance(time.Second)
	f.K.Add(200, 1, "lngtest-runc")
	for _, pid := range []uint32{100, 200} {
		f.K.Edit(pid, func(p *kerneltest.Proc) { p.UID, p.SID, p.PGID, p.Cgroup = 1000, 0, 0, 9 })
	}
	proven := func(rule uint32, joined bool) bool {
		c.info.Rule, c.info.Joined = rule, joined
		return a.byGroup(&candidate{Process: f.K.Proc(200).Process}, []claimant{c}, func(tracer.Source) bool { return true }) != nil
	}
	if !proven(0, false) || proven(policy.ContainerRule, false) || proven(0, true) {
		t.Error("the cgroup is evidence of a session of another kind only")
	}
}
