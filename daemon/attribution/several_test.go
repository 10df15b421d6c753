//go:build linux

package attribution_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
)

// What could be the work of several sessions, or of none, is attributed to none. Beside
// each such outsider is one for which the same evidence is sufficient.
func TestEvidenceOfSeveral(t *testing.T) {
	w := newWork(t, enforced)
	w.Session("user", 200, api.NewSession{GraceMS: daemontest.MS(0)})
	third := w.Session("user", 220, api.NewSession{GraceMS: daemontest.MS(0), OnRootExit: "report"})
	member := func(pid, parent, group uint32, environ ...string) {
		w.unseen(func() {
			w.Fork(parent, pid, 1000, "lngtest-member")
			w.Environ(pid, environ...)
			w.K.Edit(pid, func(p *kerneltest.Proc) { p.SID, p.PGID = group, group })
		})
	}
	outsider := func(pid, group uint32, environ ...string) { w.placed(pid, 1, group, group, 0, environ...) }
	outsider(315, 483)
	w.K.Advance(time.Second)
	w.Session("user", 230, api.NewSession{GraceMS: daemontest.MS(0)})
	member(231, 230, 483) // it joined an older group
	outsider(310, 112)
	w.K.Advance(time.Second)
	member(112, 100, 112) // it has the number of that group, and is younger
	member(110, 100, 480, "CLAUDE_CODE_SESSION_ID=both")
	member(210, 200, 480, "CLAUDE_CODE_SESSION_ID=both")
	member(111, 100, 481, "CLAUDE_CODE_SESSION_ID=one")
	member(221, 220, 482)
	outsider(311, 480)
	outsider(312, daemontest.Shell, "CLAUDE_CODE_SESSION_ID=both")
	outsider(300, 112)
	outsider(301, 481)
	outsider(302, daemontest.Shell, "CLAUDE_CODE_SESSION_ID=one")
	outsider(303, 482)
	outsider(314, 483)
	w.look()
	w.beside(300, 301, 302)
	w.beside(303)
	w.K.Exit(220, 0)
	w.K.AllRead()
	outsider(313, 482) // the root's groups can no longer be seen
	w.look()
	w.look()
	for pid := uint32(310); pid <= 315; pid++ {
		w.outside(pid)
	}
	if w.in(303) == third.ID {
		t.Error("weak evidence made a member of 303")
	}
}
