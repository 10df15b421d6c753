//go:build linux

package daemon

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// self_protect is applied at a start, reported, and removed at a start that does not
// ask for it.
func TestSelfProtection(t *testing.T) {
	p := newPoliced(t, "self_protect: true\n")
	p.k.Feature.Refuses = tracer.RefuserFmodRet
	if st := p.status(); !p.k.SelfProtected() || !st.SelfProtect || st.RefusesForks != "fmod_ret" || len(st.Degraded) != 0 {
		t.Errorf("asked for: %v, status %+v", p.k.SelfProtected(), st)
	}

	p.write("self_protect: false\n")
	doc := into[api.Policy](p.do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	if !slices.Equal(doc.NeedsRestart, []string{"self_protect"}) || !p.k.SelfProtected() {
		t.Errorf("a reload: needs restart %q, in force %v", doc.NeedsRestart, p.k.SelfProtected())
	}
	p.restart()
	if st := p.status(); p.k.SelfProtected() || st.SelfProtect {
		t.Errorf("not asked for any more: %v, status %+v", p.k.SelfProtected(), st)
	}

	p.write("self_protect: true\n")
	p.k.Fail("SelfProtect", errors.New("no BPF LSM"))
	p.restart()
	if st := p.status(); st.SelfProtect || !slices.Contains(st.Degraded, "self_protect: no BPF LSM") {
		t.Errorf("asked for and refused: status %+v", st)
	}
}
