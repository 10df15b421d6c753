//go:build linux

package daemon

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// shifting is a kernel in which a PID goes to another process: each time it is
// asked, the next one has it.
type shifting struct {
	kernel
	next []tracer.Identity
}

func (k *shifting) Identify(uint32) (tracer.Identity, error) {
	now := k.next[0]
	k.next = k.next[min(1, len(k.next)-1):]
	return now, nil
}

// What procfs said of a PID that went to another process meanwhile is nobody's.
func TestPIDChangesHands(t *testing.T) {
	w := newWork(t, enforced)
	w.stranger(300, shell, "lngtest-x", "BUILD_ID=7")
	is, was := w.k.Proc(300).Identity, w.k.Proc(300).Identity
	was.Start--
	over := func(next ...tracer.Identity) *server {
		return &server{kernel: &shifting{w.k, next}, proc: w.h.proc, clock: w.h.clock}
	}
	for name, told := range map[string]func(who ...tracer.Identity) bool{
		"root": func(who ...tracer.Identity) bool {
			p, err := over(who...).living(api.Ref{PID: 300})
			return err == nil && p.id == who[0]
		},
		"outsider": func(who ...tracer.Identity) bool {
			p, _, err := over(who[1]).outsider(who[0])
			return err == nil && p.Comm != ""
		},
		"shown": func(who ...tracer.Identity) bool {
			p := api.Process{Ref: document.Ref(who[0])}
			over(who[1]).enrich(access.Caller{}, &p)
			return p.Cgroup != ""
		},
		"reaper": func(who ...tracer.Identity) bool {
			s := over(who[1])
			return registry.Comm(s.kernel, s.proc, document.Ref(who[0])) != ""
		},
	} {
		if !told(is, is) {
			t.Errorf("%s: nothing of who is there still", name)
		}
		if told(was, is) {
			t.Errorf("%s: of another process", name)
		}
	}
}
