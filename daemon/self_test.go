//go:build linux

package daemon_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// self_protect is applied at a start, reported, and removed at a start that does not
// ask for it.
func TestSelfProtection(t *testing.T) {
	p := daemontest.New(t, daemontest.WithPolicy("self_protect: true\n"))
	p.K.Feature.Refuses = tracer.RefuserFmodRet
	if st := p.Status(); !p.K.Settings().SelfProtect || !st.SelfProtect || st.RefusesForks != "fmod_ret" || len(st.Degraded) != 0 {
		t.Errorf("asked for: %v, status %+v", p.K.Settings().SelfProtect, st)
	}

	doc := p.Reload("self_protect: false\n")
	if !slices.Equal(doc.NeedsRestart, []string{"self_protect"}) || !p.K.Settings().SelfProtect {
		t.Errorf("a reload: needs restart %q, in force %v", doc.NeedsRestart, p.K.Settings().SelfProtect)
	}
	p.Restart()
	if st := p.Status(); p.K.Settings().SelfProtect || st.SelfProtect {
		t.Errorf("not asked for any more: %v, status %+v", p.K.Settings().SelfProtect, st)
	}

	p.WritePolicy("self_protect: true\n")
	p.K.Fail("SelfProtect", errors.New("no BPF LSM"))
	p.Restart()
	if st := p.Status(); st.SelfProtect || !slices.Contains(st.Degraded, "self_protect: no BPF LSM") {
		t.Errorf("asked for and refused: status %+v", st)
	}
}
