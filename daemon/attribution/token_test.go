//go:build linux

package attribution_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
)

// uids sets the uids of a process: real, and the others.
func (w *work) uids(pid, real, effective uint32) {
	w.Helper()
	w.K.Edit(pid, func(p *kerneltest.Proc) { p.UID = effective })
	w.File(pid, "status", fmt.Sprintf("Name:\tlngtest\nUid:\t%d\t%d\t%d\t%d\n", real, effective, effective, effective))
}

// A token counts for processes of a uid that a member has or had, not for the uid that opened the session: what a member could not
// have ended is not ended for it.
func TestTokenOfUID(t *testing.T) {
	w := newWork(t, enforced)
	w.s = w.Session("root", 200, api.NewSession{Name: "dropped", GraceMS: daemontest.MS(0)}) // lineage's own, still as root
	w.outsider(30, 1, "lngtest-server")
	w.outsiderOf(0, 300, 30, "lngtest-roots", w.token())
	w.outsider(301, 30, "lngtest-users", w.token())
	w.outsiderOf(0, 303, 1, "lngtest-named", "LINEAGE_SESSION="+w.s.ID)
	w.look()
	w.outside(300, 301, 303)
	w.uids(200, 1000, 1000)
	w.K.Exec(200, "/bin/lngtest-agent", "lngtest-agent\x00")
	w.Fork(200, 210, 0, "lngtest-su")
	w.uids(210, 1000, 0) // a set-uid program
	w.K.Exec(210, "/bin/lngtest-su", "lngtest-su\x00")
	w.uids(200, 1000, 0) // and in place of the root
	w.K.Exec(200, "/bin/lngtest-su", "lngtest-su\x00")
	w.outsiderOf(33, 302, 30, "lngtest-www", w.token())
	w.look()
	w.Until(func() bool { return w.in(301) == w.s.ID })
	w.outside(300, 302, 303)
	w.Fork(200, 211, 33, "lngtest-www")
	w.uids(211, 33, 33)
	w.look()
	w.Until(func() bool { return w.in(302) == w.s.ID })
	w.K.Exit(211, 0)
	w.outsiderOf(33, 304, 30, "lngtest-later", w.token()) // a member had that uid
	w.look()
	w.Until(func() bool { return w.in(304) == w.s.ID })
	w.K.Exit(200, 0)
	w.Receipt(w.s.ID)
	w.Survive([]uint32{300, 301, 302, 303}, 300, 303)
}

// The uids that members had are known to the next daemon.
func TestTokenOfUIDRestart(t *testing.T) {
	w := newWork(t, enforced)
	w.s = w.Session("root", 200, api.NewSession{Name: "dropped", GraceMS: daemontest.MS(0)})
	w.uids(200, 1000, 1000)
	w.K.Exec(200, "/bin/lngtest-agent", "lngtest-agent\x00")
	w.Restart()
	w.uids(200, 1000, 0)
	w.outsider(301, 1, "lngtest-users", w.token())
	w.outsiderOf(0, 300, 1, "lngtest-roots", w.token())
	w.look()
	w.Until(func() bool { return w.in(301) == w.s.ID })
	w.outside(300)
}

// A server that somebody starts in a terminal with the variables of an agent is shown beside the session and
// outlives it, also when the terminal has been closed.
func TestTokenInTerminal(t *testing.T) {
	w := newWork(t, enforced)
	terminal := func(pid, parent uint32, comm, sid string) {
		w.File(pid, "stat", strings.Replace(daemontest.StatOf(pid, comm, "S", parent), " 1 1 0 -1 ", " 1 "+sid+" 34816 -1 ", 1))
	}
	w.unseen(func() {
		w.outsider(40, 1, "lngtest-shell")
		terminal(40, 1, "lngtest-shell", "40")
		w.outsider(300, 40, "lngtest-server", w.token()) // has left the terminal, by setsid
		w.outsider(301, 40, "lngtest-make", "A=1")
		terminal(301, 40, "lngtest-make", "40")
		w.outsider(302, 301, "lngtest-npm", w.token())
		w.outsider(303, 1, "lngtest-orphan", w.token()) // its parent has exited
		terminal(303, 1, "lngtest-orphan", "40")
		w.outsider(50, 1, "lngtest-tmux")
		w.outsider(304, 50, "lngtest-pane", w.token()) // leads a terminal that a broker gave it
		terminal(304, 50, "lngtest-pane", "304")
	})
	w.look()
	w.Until(func() bool { return w.in(300) != "" && w.in(302) != "" && w.in(303) != "" && w.in(304) == w.s.ID })
	w.unseen(func() {
		w.K.Exit(40, 0)
		for _, pid := range []uint32{300, 302, 303} {
			w.File(pid, "stat", daemontest.StatOf(pid, "lngtest-server", "S", 1))
		}
	})
	w.look()
	for _, b := range w.brokered(4) {
		if weak := b.Process.PID != 304; weak != (b.Evidence.Confidence == "weak") || weak == b.Ends || weak == (b.Session == w.s.ID) {
			t.Errorf("%d: %+v", b.Process.PID, b)
		}
	}
	w.Restart()
	w.look()
	w.K.Exit(100, 0)
	w.Receipt(w.s.ID)
	w.Survive([]uint32{300, 302, 303, 304}, 300, 302, 303)
}
