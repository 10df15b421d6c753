//go:build linux

package attribution_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// work is a daemon in which members hand work to others.
type work struct {
	*daemontest.Daemon
	s      *api.Session
	hidden bool // no walk over the host
}

// newWork makes a session of the user, with the root 100.
func newWork(t *testing.T, policy string) *work {
	t.Helper()
	w := &work{Daemon: daemontest.New(t, daemontest.WithPolicy(policy), filesInDir)}
	w.s = w.Session("user", 100, api.NewSession{Name: "work", GraceMS: daemontest.MS(0)})
	return w
}

// filesInDir keeps the daemon from the files of this host.
func filesInDir(w *daemontest.Daemon) { w.Host.Files = w.Dir }

func (w *work) outsider(pid, parent uint32, comm string, environ ...string) {
	w.Helper()
	w.outsiderOf(1000, pid, parent, comm, environ...)
}

func (w *work) outsiderOf(uid, pid, parent uint32, comm string, environ ...string) {
	w.Helper()
	w.unseen(func() {
		w.Add(pid, parent, uid, comm)
		w.Environ(pid, environ...)
	})
}

// unseen makes something of several steps: the looks in the background come
// before or after it.
func (w *work) unseen(f func()) {
	if !w.hidden {
		looking := &w.Gates.Looking
		looking.Lock()
		w.hidden = true
		defer func() { w.hidden = false; looking.Unlock() }()
	}
	f()
}

func (w *work) become(pid uint32, comm string, environ ...string) {
	w.Helper()
	w.Exe(pid, "/bin/"+comm)
	w.Environ(pid, environ...)
	w.K.Edit(pid, func(p *kerneltest.Proc) { p.Comm = tracer.Comm{}; copy(p.Comm[:15], comm) })
	if w.in(pid) != "" {
		w.K.Exec(pid, "/bin/"+comm, comm+"\x00")
	}
}

// runs makes a member run a command, in a new child of the root.
func (w *work) runs(pid uint32, command ...string) {
	w.Helper()
	w.Fork(100, pid, 1000, filepath.Base(command[0]))
	w.K.Exec(pid, command[0], strings.Join(command, "\x00")+"\x00")
	w.K.AllRead()
}

// placed makes an outsider of the user in a POSIX session, a process group and a cgroup, if that is not 0.
func (w *work) placed(pid, parent, sid, pgid uint32, cgroup uint64, environ ...string) {
	w.Helper()
	w.unseen(func() {
		w.outsider(pid, parent, "lngtest-p", environ...)
		w.K.Edit(pid, func(p *kerneltest.Proc) { p.SID, p.PGID, p.Cgroup = sid, pgid, cmp.Or(cgroup, p.Cgroup) })
	})
}

// look makes the daemon look at every process, however often it has done so, and waits
// until it has.
func (w *work) look() {
	w.Helper()
	w.Service.Attribution.LookAnew()
	w.walk()
}

// walk makes the daemon look at every process that is due, and waits until it has.
func (w *work) walk() {
	w.Helper()
	for range 2 { // the second is handed over after the first was taken
		w.K.AllRead()
		w.Resync(registry.CauseNone)
		w.Until(func() bool { return !w.Service.Attribution.Busy() })
	}
}

func (w *work) in(pid uint32) string {
	w.Helper()
	p := w.K.Proc(pid)
	if p == nil || p.Session == 0 {
		return ""
	}
	return p.Session.String()
}

// outside checks that processes are in no session.
func (w *work) outside(pids ...uint32) {
	w.Helper()
	for _, pid := range pids {
		if in := w.in(pid); in != "" {
			w.Errorf("%d is in %s", pid, in)
		}
	}
}

// members waits until processes are members of the session.
func (w *work) members(pids ...uint32) {
	w.Helper()
	for _, pid := range pids {
		w.Until(func() bool { return w.in(pid) == w.s.ID })
	}
}

// beside waits until processes are in one other session, and returns it.
func (w *work) beside(pids ...uint32) (companion string) {
	w.Helper()
	w.Until(func() bool {
		companion = w.in(pids[0])
		return companion != "" && !slices.ContainsFunc(pids, func(pid uint32) bool { return w.in(pid) != companion })
	})
	if companion == w.s.ID {
		w.Errorf("%v are members", pids)
	}
	return companion
}

// panes has a tmux server begin processes right after a member has asked it.
func (w *work) panes(pids ...uint32) (companion string) {
	w.Helper()
	w.outsider(30, 1, "tmux")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	for _, pid := range pids {
		w.outsider(pid, 30, "lngtest-pane")
	}
	w.look()
	return w.beside(pids...)
}

func (w *work) doc() *api.Session {
	w.Helper()
	return daemontest.Get[api.Session](w, "user", "/v1/sessions/"+w.s.ID)
}

// brokered waits until a session has that many handed-over items.
func (w *work) brokered(n int) []api.Delegated {
	w.Helper()
	var all []api.Delegated
	w.Until(func() bool {
		all = w.doc().Delegated
		return len(all) == n
	})
	return all
}

// attributed waits until the daemon tells how the process came to its session. The kernel
// has it in the session a moment earlier.
func (w *work) attributed(pid uint32) (why *api.Why) {
	w.Helper()
	w.Until(func() bool {
		answer := w.Do("user", "GET", fmt.Sprintf("/v1/why?ref=%d", pid), nil)
		if answer.Status != http.StatusOK {
			return false
		}
		why = daemontest.Into[api.Why](answer, http.StatusOK)
		return why.Session != nil && why.Delegated != nil
	})
	return why
}

// planned returns the evidence that a dry run names for each member.
func (w *work) planned(session string) map[int]string {
	w.Helper()
	why := make(map[int]string)
	for _, p := range daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/sessions/"+session+"/plan", nil), http.StatusOK).Processes {
		why[p.PID] = p.Why
	}
	return why
}

func (w *work) token() string { return "LINEAGE_TOKEN=" + w.s.Token }

const enforced = "mode: enforce\n"
