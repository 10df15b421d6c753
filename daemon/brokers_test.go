//go:build linux

package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// work is a world in which members hand work to others.
type work struct {
	*policed
	s *api.Session
}

// newWork has a session of the user, with the root 100.
func newWork(t *testing.T, policy string) *work {
	t.Helper()
	w := &work{policed: newPoliced(t, policy)}
	w.h.files = w.dir
	w.restart()
	w.s = w.session("user", 100, api.NewSession{Name: "work", GraceMS: ms(0)})
	return w
}

// stranger is a process that somebody else forked, of the user.
func (w *work) stranger(pid, parent uint32, comm string, environ ...string) {
	w.Helper()
	w.strangerOf(1000, pid, parent, comm, environ...)
}

func (w *work) strangerOf(uid, pid, parent uint32, comm string, environ ...string) {
	w.Helper()
	w.host(pid, parent, uid, comm)
	w.environ(pid, environ...)
}

func (w *work) environ(pid uint32, environ ...string) {
	w.Helper()
	w.file(pid, "environ", strings.Join(environ, "\x00")+"\x00")
}

func (w *work) file(pid uint32, name, text string) {
	w.Helper()
	path := w.h.proc.path(pid, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// exe sets what procfs says that a process runs.
func (w *work) exe(pid uint32, path string) {
	w.Helper()
	os.Remove(w.h.proc.path(pid, "exe"))
	if err := os.Symlink(path, w.h.proc.path(pid, "exe")); err != nil {
		w.Fatal(err)
	}
}

// become is an exec, of a stranger or a member.
func (w *work) become(pid uint32, comm string, environ ...string) {
	w.Helper()
	w.exe(pid, "/bin/"+comm)
	w.environ(pid, environ...)
	w.k.Edit(pid, func(p *kerneltest.Proc) { p.Comm = tracer.Comm{}; copy(p.Comm[:15], comm) })
	if w.in(pid) != "" {
		w.k.Exec(pid, "/bin/"+comm, comm+"\x00")
	}
}

// runs makes a member run a command, in a new child of the root.
func (w *work) runs(pid uint32, command ...string) {
	w.Helper()
	w.k.Fork(100, pid, filepath.Base(command[0]))
	w.proc(pid, 100, 1000, filepath.Base(command[0]))
	w.k.Exec(pid, command[0], strings.Join(command, "\x00")+"\x00")
	w.k.AllRead()
}

// look has the daemon look at everybody, and waits until it has.
func (w *work) look() {
	w.Helper()
	for range 2 { // the second is handed over when the first has been taken
		w.k.AllRead()
		p := w.policed.world.s.sampler
		if _, err := p.sample(causeNone); err != nil {
			w.Fatal(err)
		}
		w.until(func() bool { return len(p.strangers) == 0 })
	}
}

func (w *work) in(pid uint32) string {
	w.Helper()
	p := w.k.Proc(pid)
	if p == nil || p.Session == 0 {
		return ""
	}
	return p.Session.String()
}

func (w *work) dead(pid uint32) bool {
	p := w.k.Proc(pid)
	return p == nil || p.Dead
}

// doc is the session now.
func (w *work) doc() *api.Session {
	w.Helper()
	return into[api.Session](w.do("user", "GET", "/v1/sessions/"+w.s.ID, nil), http.StatusOK)
}

// brokered waits until a session has handed over that many things.
func (w *work) brokered(n int) []api.Brokered {
	w.Helper()
	var all []api.Brokered
	w.until(func() bool {
		all = w.doc().Brokered
		return len(all) == n
	})
	return all
}

// planned is why a dry run says that each is a member.
func (w *work) planned(session string) map[int]string {
	w.Helper()
	why := make(map[int]string)
	for _, p := range into[api.Plan](w.do("user", "POST", "/v1/sessions/"+session+"/plan", nil), http.StatusOK).Processes {
		why[p.PID] = p.Why
	}
	return why
}

func (w *work) token() string { return "LINEAGE_TOKEN=" + w.s.Token }

const enforced = "mode: enforce\n"

// The token makes a member of a stranger of the session's uid, and of its
// children; the session ends with them.
func TestBrokeredByToken(t *testing.T) {
	w := newWork(t, enforced)
	w.stranger(30, 1, "lngtest-server")
	w.stranger(300, 30, "lngtest-job", "A=1", w.token())
	w.stranger(301, 300, "lngtest-child")
	w.strangerOf(1001, 310, 30, "lngtest-other", w.token())                            // of another uid
	w.stranger(311, 30, "lngtest-wrong", "LINEAGE_TOKEN=x"+w.s.Token)                  // nearly
	w.stranger(312, 30, "lngtest-false", "LINEAGE_SESSION="+w.s.ID, "LINEAGE_TOKEN=1") // a false secret
	w.look()
	w.until(func() bool { return w.in(301) == w.s.ID })
	if w.in(300) != w.s.ID || w.in(30) != "" || w.in(310) != "" || w.in(311) != "" || w.in(312) != "" {
		t.Errorf("30 %s 300 %s 310 %s 311 %s 312 %s", w.in(30), w.in(300), w.in(310), w.in(311), w.in(312))
	}
	all := w.brokered(1)
	if b := all[0]; b.State != "attributed" || b.Process.PID != 300 || b.Evidence.Kind != "adopted" || b.Evidence.Source != "env" ||
		b.Evidence.Confidence != "strong" || !b.Ends || b.Session != w.s.ID || b.Asked != nil {
		t.Errorf("%+v", b)
	}
	why := into[api.Why](w.do("user", "GET", "/v1/why?ref=300", nil), http.StatusOK)
	if len(why.Edges) == 0 || why.Edges[0].Kind != "adopted" || why.Edges[0].Evidence.Source != "env" {
		t.Errorf("%+v", why)
	}
	if got := w.planned(w.s.ID); got[300] != "adopted (env), strong" || got[301] != "adopted (parent), strong, child of 300 lngtest-job" {
		t.Errorf("%+v", got)
	}
	w.k.Exit(100, 0)
	r := w.receipt(w.s.ID)
	if r.Verdict != "clean" || len(r.Brokered) != 1 || !w.dead(300) || !w.dead(301) {
		t.Errorf("%+v", r)
	}
	for _, pid := range []uint32{30, 310, 311, 312} {
		if w.dead(pid) {
			t.Errorf("%d died", pid)
		}
	}
	if text := w.audit(); !strings.Contains(text, "adopted(env) for session "+w.s.ID) || strings.Contains(text, w.s.Token) {
		t.Errorf("audit: %s", text)
	}
}

// Observed, what was found is shown beside the session and outlives it.
func TestBrokeredObserved(t *testing.T) {
	w := newWork(t, "mode: observe\n")
	w.stranger(300, 1, "lngtest-job", w.token())
	w.stranger(301, 300, "lngtest-child")
	w.look()
	all := w.brokered(1)
	w.until(func() bool { return w.in(301) != "" })
	if w.in(300) == w.s.ID || w.in(300) != all[0].Session || w.in(301) != w.in(300) || all[0].Ends {
		t.Errorf("%s, %+v", w.in(300), all[0])
	}
	beside := into[api.Session](w.do("user", "GET", "/v1/sessions/"+w.in(300), nil), http.StatusOK)
	if beside.BrokeredBy != w.s.ID || beside.Evidence != "adopted" || beside.Parent != "" || beside.Root.Evidence.Source != "env" {
		t.Errorf("%+v", beside)
	}
	w.k.Exit(100, 0)
	w.receipt(w.s.ID)
	w.look()
	w.until(func() bool {
		r := into[api.Report](w.do("user", "GET", "/v1/sessions/"+beside.ID+"/report", nil), http.StatusAccepted)
		return len(r.WouldEnd) == 1 && r.WouldEnd[0] == "ancestor"
	})
	if w.dead(300) || len(w.k.Signals()) != 0 {
		t.Errorf("%+v", w.k.Signals())
	}
}

// What a server forks right after a member asked it is likely the member's, and
// no more: it is shown, and ends if the policy says all.
func TestBrokeredBySocket(t *testing.T) {
	for end, dies := range map[string]bool{"strong": false, "all": true, "none": false} {
		w := newWork(t, enforced+"brokers: {end: "+end+"}\n")
		w.stranger(30, 1, "tmux")
		w.file(30, "cmdline", "tmux\x00-L\x00a\x00new\x00-d\x00")
		w.stranger(31, 1, "tmux") // another one
		w.file(31, "cmdline", "tmux\x00-L\x00b\x00new\x00-d\x00")
		w.stranger(299, 30, "lngtest-before")
		w.runs(101, "/usr/bin/tmux", "-L", "a", "new-session", "-d", "sleep 9")
		w.stranger(312, 31, "lngtest-theirs")
		w.stranger(300, 30, "lngtest-pane")
		w.strangerOf(1001, 310, 30, "lngtest-other")
		w.stranger(311, shell, "lngtest-else")
		w.k.Exit(101, 0)
		w.look()
		b := w.brokered(1)[0]
		if b.State != "attributed" || b.Broker != "tmux" || b.Asked.PID != 101 || len(b.Asked.Argv) != 6 || b.Time == nil ||
			b.Evidence.Source != "socket" || b.Evidence.Confidence != "weak" || b.Ends != dies || b.Session == w.s.ID || b.Process.PID != 300 {
			t.Errorf("%s: %+v", end, b)
		}
		orphans := into[api.Orphans](w.do("user", "GET", "/v1/orphans?session="+b.Session, nil), http.StatusOK).Items
		if len(orphans) != 1 || orphans[0].PID != 300 || orphans[0].Brokered == nil || orphans[0].Brokered.Evidence.Source != "socket" || orphans[0].State != "live" {
			t.Errorf("%+v", orphans)
		}
		if got := w.planned(b.Session); got[300] != "root (socket), weak" {
			t.Errorf("%+v", got)
		}
		w.k.Exit(100, 0)
		if r := w.receipt(w.s.ID); len(r.Brokered) != 1 || r.Verdict != "clean" {
			t.Errorf("%+v", r)
		}
		w.look()
		if dies {
			if r := w.receipt(b.Session); r.EndReason != "ancestor" || r.Verdict != "clean" {
				t.Errorf("%+v", r)
			}
		}
		if w.dead(300) != dies {
			t.Errorf("%s: %+v", end, w.k.Proc(300))
		}
		for _, pid := range []uint32{30, 31, 299, 310, 311, 312} {
			if p := w.k.Proc(pid); p == nil || p.Dead || p.Session != 0 {
				t.Errorf("%s: %+v", end, p)
			}
		}
	}
}

// Who hands the secret on as an argument does not have it shown.
func TestTokenInCommand(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/tmux", "neww", "-e", w.token(), "sleep 9")
	w.file(101, "cmdline", "tmux\x00-e\x00"+w.token()+"\x00")
	for _, path := range []string{"/v1/processes/101", "/v1/why?ref=101", "/v1/sessions/" + w.s.ID, "/v1/sessions/" + w.s.ID + "/tree"} {
		if text := string(w.do("root", "GET", path, nil).body); !strings.Contains(text, "LINEAGE_TOKEN=*") || strings.Contains(text, w.s.Token) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// A server's child that has not come to the work's own program tells nothing.
func TestBrokeredBefore(t *testing.T) {
	w := newWork(t, enforced)
	w.stranger(30, 1, "tmux")
	w.stranger(31, 1, "containerd-shim-runc-v2")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	w.runs(102, "/usr/bin/docker", "run", "alpine")
	w.stranger(300, 30, "tmux")
	w.stranger(302, 30, "utempter") // tmux's own
	w.stranger(301, 31, "runc:[2:INIT]")
	w.exe(301, "/memfd:runc_cloned:/proc/self/exe (deleted)")
	w.file(301, "cgroup", "0::/docker/"+fmt.Sprintf("%064x", 1)+"\n")
	w.look()
	w.stranger(304, 31, "runc:[2:INIT]")
	w.exe(304, "/") // a detached mount of runc's file
	w.file(304, "cgroup", "0::/docker/"+fmt.Sprintf("%064x", 2)+"\n")
	// Nor does one that is within its exec, whose environment is not there yet.
	w.stranger(303, 30, "lngtest-execs")
	w.file(303, "environ", "")
	w.file(303, "stat", "303 (lngtest) R"+strings.Repeat(" 0", 40))
	w.look()
	if w.in(300)+w.in(301)+w.in(302)+w.in(303)+w.in(304) != "" {
		t.Fatalf("300 %s 301 %s 302 %s 303 %s", w.in(300), w.in(301), w.in(302), w.in(303))
	}
	w.environ(303, "A=1", w.token())
	w.become(300, "lngtest-pane", w.token())
	w.become(301, "lngtest-box", "A=1")
	w.look()
	w.until(func() bool { return w.in(300) == w.s.ID && w.in(303) == w.s.ID && w.in(301) != "" })
	if w.in(301) == w.s.ID {
		t.Error("weak evidence made a member of 301")
	}
}

// Who has another parent than the walk met is the new one's.
func TestBrokeredReparented(t *testing.T) {
	w := newWork(t, enforced)
	w.stranger(30, 1, "runc")
	w.stranger(31, 1, "containerd-shim-runc-v2")
	w.runs(101, "/usr/bin/docker", "run", "alpine")
	w.stranger(300, 30, "lngtest-box", w.token())
	w.file(300, "stat", "300 (lngtest-box) S 31 1 1")
	w.look()
	w.until(func() bool { return w.in(300) == w.s.ID })
	if b := w.brokered(1)[0]; b.Broker != "docker" || b.Asked == nil || b.Asked.PID != 101 {
		t.Errorf("%+v", b)
	}
}

// Weak evidence gives way to strong: what is beside goes over to the session,
// with what it forked, and nothing is left to tell of where it was.
func TestBrokeredRaised(t *testing.T) {
	w := newWork(t, enforced)
	w.stranger(30, 1, "tmux")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	w.stranger(300, 30, "lngtest-sh")
	w.stranger(310, 30, "lngtest-stays")
	w.k.Exit(101, 0)
	w.look()
	w.until(func() bool { return w.in(300) != "" && w.in(300) == w.in(310) })
	beside := w.in(300)
	w.k.Fork(300, 301, "lngtest-child")
	w.environ(300, w.token())
	w.k.Exec(300, "/bin/lngtest-sh", "lngtest-sh\x00") // under the same name: only its exec tells
	w.until(func() bool { return w.in(300) == w.s.ID && w.in(301) == w.s.ID })
	if w.in(310) != beside {
		t.Errorf("310 is in %s", w.in(310))
	}
	all := w.brokered(2)
	for _, b := range all {
		want := map[int]string{300: "env strong " + w.s.ID, 310: "socket weak " + beside}[b.Process.PID]
		if got := b.Evidence.Source + " " + b.Evidence.Confidence + " " + b.Session; got != want || b.Broker != "tmux" || b.Ends != (b.Process.PID == 300) {
			t.Errorf("%s: %+v", got, b)
		}
	}
	w.become(310, "lngtest-stays", w.token())
	w.until(func() bool { return w.in(310) == w.s.ID })
	w.until(func() bool { return w.do("user", "GET", "/v1/sessions/"+beside, nil).status == http.StatusNotFound })
	why := into[api.Why](w.do("user", "GET", "/v1/why?ref=301", nil), http.StatusOK)
	if why.Session.ID != w.s.ID || why.Brokered == nil || why.Brokered.Evidence.Source != "env" {
		t.Errorf("%+v", why)
	}
	w.k.Exit(100, 0)
	if r := w.receipt(w.s.ID); r.Verdict != "clean" || len(r.Brokered) != 2 || !w.dead(300) || !w.dead(301) || !w.dead(310) {
		t.Errorf("%+v", r)
	}
	if w.dead(30) {
		t.Error("the server died")
	}
}

// Observed it stays where it is, with the better evidence.
func TestBrokeredRaisedObserved(t *testing.T) {
	w := newWork(t, "mode: observe\n")
	w.stranger(30, 1, "tmux")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	w.stranger(300, 30, "lngtest-sh")
	w.look()
	w.until(func() bool { return w.in(300) != "" })
	beside := w.in(300)
	w.become(300, "lngtest-job", w.token())
	w.until(func() bool { return w.brokered(1)[0].Evidence.Confidence == "strong" })
	if b := w.brokered(1)[0]; b.Session != beside || w.in(300) != beside || b.Ends || b.Evidence.Source != "env" {
		t.Errorf("%+v", b)
	}
	w.k.Exit(100, 0)
	w.receipt(w.s.ID)
	w.look()
	w.until(func() bool { // it would end with the session, as strong evidence does
		r := into[api.Report](w.do("user", "GET", "/v1/sessions/"+beside+"/report", nil), http.StatusAccepted)
		return len(r.WouldEnd) == 1 && r.WouldEnd[0] == "ancestor"
	})
}

// What is asked for and not found is told; what was refused, or is forked by
// the session itself, is not.
func TestUnattributed(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/crontab", "-")
	w.runs(102, "/usr/bin/tmux", "new", "-d")
	w.runs(103, "/usr/bin/tmux", "-L", "own", "new", "-d")
	w.k.Fork(103, 104, "tmux")
	w.runs(105, "/usr/bin/tmux", "-L", "own", "neww")
	w.runs(106, "/usr/bin/at", "now")
	w.runs(107, "/usr/bin/docker", "run", "alpine")
	w.runs(108, "/usr/bin/docker", "ps")
	for pid, status := range map[uint32]uint32{101: 0, 102: 0, 103: 0, 105: 0, 106: 1 << 8, 107: 1 << 8} {
		w.k.Exit(pid, status)
	}
	states := func(all []api.Brokered) (text string) {
		for _, b := range all {
			text += b.Broker + " " + b.State + ", "
		}
		return text
	}
	if got := states(w.brokered(3)); got != "cron pending, tmux pending, docker pending, " {
		t.Error(got)
	}
	w.k.Advance(settling + time.Second)
	if got := states(w.brokered(3)); got != "cron pending, tmux unattributed, docker unattributed, " {
		t.Error(got)
	}
	// Another user's command lines are not shown, the host's root may know.
	if b := into[api.Session](w.do("reader", "GET", "/v1/sessions/"+w.s.ID, nil), http.StatusOK).Brokered[1]; b.Asked.Argv != nil || b.Asked.Comm != "tmux" {
		t.Errorf("%+v", b.Asked)
	}
	// Nobody's work is hidden where one looks for what nobody is there for.
	var listed []string
	for _, o := range into[api.Orphans](w.do("user", "GET", "/v1/orphans", nil), http.StatusOK).Items {
		if o.Why == api.WhyBrokered {
			listed = append(listed, fmt.Sprintf("%d %s %s %s %s", o.PID, o.Comm, o.State, o.Session, o.Brokered.State))
		}
	}
	if got, want := strings.Join(listed, ", "), strings.ReplaceAll("101 crontab exited S pending, 102 tmux exited S unattributed, 107 docker exited S unattributed", "S", w.s.ID); got != want {
		t.Errorf("orphans: %s, want %s", got, want)
	}
	w.k.Exit(100, 0)
	if got := states(w.receipt(w.s.ID).Brokered); got != "cron unattributed, tmux unattributed, docker unattributed, " {
		t.Error(got)
	}
}

// Two hundred have the name, the command line, the directory and the variables
// of one that is brokered, but not its secret: none is touched.
func TestBrokerLookalikes(t *testing.T) {
	for _, end := range []string{"strong", "all"} {
		w := newWork(t, enforced+"brokers: {end: "+end+"}\n")
		w.stranger(300, 1, "lngtest-job", "LINEAGE_SESSION="+w.s.ID, w.token())
		other := strings.Repeat("A", len(w.s.Token))
		for pid := uint32(1000); pid < 1200; pid++ {
			w.stranger(pid, 1, "lngtest-job", "LINEAGE_SESSION="+w.s.ID, "LINEAGE_TOKEN="+other)
		}
		w.look()
		w.until(func() bool { return w.in(300) == w.s.ID })
		w.look()
		w.k.Exit(100, 0)
		w.receipt(w.s.ID)
		w.look()
		for pid := uint32(1000); pid < 1200; pid++ {
			if p := w.k.Proc(pid); p == nil || p.Dead || p.Session != 0 {
				t.Fatalf("%+v", p)
			}
		}
		if !w.dead(300) {
			t.Error("the one that has it lives")
		}
		for _, s := range w.k.Signals() {
			if s.To.PID >= 1000 {
				t.Errorf("%+v", s)
			}
		}
	}
}

// A unit that a member named is its own, if it was made for that, and if the
// member could have ended it by itself.
func TestBrokeredByUnit(t *testing.T) {
	w := newWork(t, enforced)
	w.proc(1, 0, 0, "systemd")
	w.stranger(30, 1, "systemd")
	begins := func(pid uint32, cgroup string) {
		t.Helper()
		manager := uint32(30)
		if strings.HasPrefix(cgroup, "/system.slice/") {
			manager = 1
		}
		w.stranger(pid, manager, "lngtest-unit")
		w.file(pid, "cgroup", "0::"+cgroup+"\n")
	}
	unit := func(pid uint32, cgroup string) {
		t.Helper()
		begins(pid, cgroup)
		dir := filepath.Join(w.dir, "run/systemd/transient")
		if strings.Contains(cgroup, "user@1000") {
			dir = filepath.Join(w.dir, "run/user/1000/systemd/transient")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Base(cgroup))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := w.h.clock.offset.Add(w.k.Now())
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	const manager = "/user.slice/user-1000.slice/user@1000.service/app.slice/"
	w.runs(101, "/usr/bin/systemd-run", "--user", "--unit=mine", "sleep", "9")
	w.runs(102, "/usr/bin/systemd-run", "--unit=roots", "sleep", "9") // by 1000: somebody else's, whoever made it
	w.runs(103, "/usr/bin/systemd-run", "--user", "--unit=old", "sleep", "9")
	w.runs(104, "/usr/bin/systemd-run", "--user", "sleep", "9")
	unit(300, manager+"mine.service")
	unit(310, "/system.slice/roots.service")
	unit(311, "/system.slice/mine.service")
	begins(312, manager+"old.service") // no transient one
	unit(313, strings.ReplaceAll(manager, "1000", "1001")+"mine.service")
	unit(314, manager+"run-u7.service")
	unit(315, "/system.slice/run-r8.service")
	begins(316, "/system.slice/lngtest-standing.service")
	w.look()
	w.until(func() bool { return w.in(300) == w.s.ID && w.in(314) != "" && w.in(315) != "" })
	if w.in(310)+w.in(311)+w.in(312)+w.in(313)+w.in(316) != "" || w.in(314) == w.s.ID || w.in(315) == w.s.ID {
		t.Errorf("310 %s 311 %s 312 %s 313 %s 314 %s 315 %s 316 %s", w.in(310), w.in(311), w.in(312), w.in(313), w.in(314), w.in(315), w.in(316))
	}

	// What the unit begins later, or again, is the session's too; what somebody
	// else makes by that name later is not.
	w.k.Exit(101, 0)
	w.k.AllRead()
	w.k.Advance(time.Minute)
	begins(301, manager+"mine.service")
	w.look()
	w.until(func() bool { return w.in(301) == w.s.ID })
	w.k.Exit(301, 0)
	unit(302, manager+"mine.service")
	w.look()
	if w.in(302) != "" {
		t.Errorf("a later unit is in %s", w.in(302))
	}
}

// A container that root named is the session's, by docker's own record.
func TestBrokeredByContainer(t *testing.T) {
	w := newWork(t, enforced)
	id := func(n int) string { return fmt.Sprintf("%064x", n) }
	w.host(100100, 100, 0, "lngtest-sudo")
	w.k.Fork(100, 101, "docker")
	w.k.Edit(101, func(p *kerneltest.Proc) { p.UID = 0 })
	container := func(pid uint32, n int, name string, created time.Duration) {
		t.Helper()
		shim, dir := 1000+pid, filepath.Join(w.dir, "docker/containers", id(n))
		w.strangerOf(0, shim, 1, "containerd-shim-runc-v2")
		w.strangerOf(0, pid, shim, "lngtest-box")
		w.file(pid, "cgroup", "0::/docker/"+id(n)+"\n")
		bundle := filepath.Join(w.dir, "bundles", id(n))
		for _, d := range []string{dir, bundle} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		os.Remove(w.h.proc.path(shim, "cwd"))
		os.Symlink(bundle, w.h.proc.path(shim, "cwd"))
		at := w.h.clock.offset.Add(w.k.Now() + created).Format(time.RFC3339Nano)
		for path, text := range map[string]string{
			filepath.Join(bundle, "config.json"): fmt.Sprintf(`{"mounts":[{"destination":"/etc/hostname","source":%q}]}`, filepath.Join(dir, "hostname")),
			filepath.Join(dir, "config.v2.json"): fmt.Sprintf(`{"ID":%q,"Name":"/%s","Created":%q}`, id(n), name, at),
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.k.Advance(time.Second)
	w.k.Exec(101, "/usr/bin/docker", "docker\x00run\x00-d\x00--name\x00mine\x00alpine\x00")
	w.k.AllRead()
	container(300, 1, "mine", 0)
	container(301, 2, "theirs", 0)
	container(302, 3, "mine", -time.Second) // made before it was asked for
	w.k.Exit(101, 0)
	w.look()
	w.until(func() bool { return w.in(300) == w.s.ID && w.in(301) != "" && w.in(302) != "" })
	if w.in(301) == w.s.ID || w.in(302) == w.s.ID {
		t.Errorf("301 %s 302 %s", w.in(301), w.in(302))
	}
	// What is not the user's own he has no say over, for a coincidence.
	w.do("user", "POST", "/v1/sessions/"+w.in(301)+"/end", api.EndRequest{}).refused(api.CodeDenied)
}

// A job of at(1) is known by the environment that is kept with it, after its
// session too.
func TestBrokeredByJob(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/at", "now")
	w.k.Exit(101, 0)
	w.runs(102, "/usr/bin/at", "now", "+", "1", "day") // what begins first is most likely the one before
	w.k.Exit(102, 0)
	job := func(pid uint32, script string) {
		t.Helper()
		w.stranger(pid, 30, "lngtest-sh", "SHELL=/bin/sh")
		w.file(pid, "fd/0", "#!/bin/sh\n# atrun uid=1000\n"+script)
	}
	w.stranger(30, 1, "atd")
	job(300, w.token()+"; export LINEAGE_TOKEN\nsleep 9\n")
	job(301, "LINEAGE_TOKEN=OTHER; export LINEAGE_TOKEN\n")
	w.look()
	w.until(func() bool { return w.in(300) == w.s.ID })
	all := w.brokered(2)
	b := all[slices.IndexFunc(all, func(b api.Brokered) bool { return b.State == "attributed" })]
	if b.Broker != "atd" || b.Asked.PID != 101 || w.in(301) != "" {
		t.Errorf("%+v, 301 %s", b, w.in(301))
	}
	w.k.Exit(100, 0)
	w.receipt(w.s.ID)
	job(302, w.token()+"; export LINEAGE_TOKEN\nsleep 9\n")
	w.look()
	late := w.brokered(2)[1]
	if late.Asked.PID != 102 {
		t.Errorf("%+v", late)
	}
	w.look()
	if r := w.receipt(late.Session); r.EndReason != "ancestor" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}

// A variable tells something if members of one session have it, and nobody
// around it.
func TestBrokeredByCookie(t *testing.T) {
	w := newWork(t, enforced)
	w.environ(uint32(os.Getpid()), "BUILD_ID=daemon")
	w.environ(userPID, "RUNNER_TRACKING_ID=job")
	w.environ(100, "RUNNER_TRACKING_ID=job", "BUILD_ID=daemon")
	w.k.Fork(100, 101, "lngtest-member")
	w.proc(101, 100, 1000, "lngtest-member")
	w.environ(101, "RUNNER_TRACKING_ID=job", "BUILD_ID=daemon", "CLAUDE_CODE_SESSION_ID=inner")
	w.stranger(300, 1, "lngtest-a", "CLAUDE_CODE_SESSION_ID=inner")
	w.stranger(310, 1, "lngtest-b", "RUNNER_TRACKING_ID=job")
	w.stranger(311, 1, "lngtest-c", "BUILD_ID=daemon")
	w.strangerOf(1001, 312, 1, "lngtest-d", "CLAUDE_CODE_SESSION_ID=inner")
	w.look()
	b := w.brokered(1)[0]
	if b.Process.PID != 300 || b.Evidence.Source != "cookie" || b.Evidence.Confidence != "weak" || w.in(300) == w.s.ID {
		t.Errorf("%+v", b)
	}
	if w.in(310)+w.in(311)+w.in(312) != "" {
		t.Errorf("310 %s 311 %s 312 %s", w.in(310), w.in(311), w.in(312))
	}
}

// What is in the POSIX session or the process group that a member leads is
// likely its own.
func TestBrokeredByPosix(t *testing.T) {
	w := newWork(t, enforced)
	for pid, sid := range map[uint32]uint32{300: 100, 301: 1, 302: shell} {
		w.stranger(pid, 1, "lngtest-x")
		w.k.Edit(pid, func(p *kerneltest.Proc) { p.SID, p.PGID = sid, sid })
	}
	w.stranger(303, 1, "lngtest-x")
	w.k.Edit(303, func(p *kerneltest.Proc) { p.SID, p.PGID = shell, 100 })
	w.look()
	for _, b := range w.brokered(2) {
		if want := map[int]string{300: "sid", 303: "pgrp"}[b.Process.PID]; b.Evidence.Source != want || b.Evidence.Confidence != "weak" {
			t.Errorf("%+v", b)
		}
	}
	if w.in(300) != w.in(303) || w.in(300) == w.s.ID || w.in(301)+w.in(302) != "" {
		t.Errorf("300 %s 303 %s", w.in(300), w.in(303))
	}
}

// What the protect list names is never adopted, and only what the policy takes
// is evidence.
func TestBrokersSpare(t *testing.T) {
	w := newWork(t, enforced+"brokers: {adopt: [unit]}\nprotect:\n  - {name: db, match: {exe: /bin/lngtest-db}, reason: data}\n")
	w.stranger(300, 1, "lngtest-job", w.token())
	w.look()
	if w.in(300) != "" {
		t.Error("the policy does not take env")
	}
	w = newWork(t, enforced+"protect:\n  - {name: db, match: {exe: /bin/lngtest-db}, reason: data}\n")
	w.stranger(300, 1, "lngtest-db", w.token())
	w.stranger(301, 1, "lngtest-job", w.token())
	w.look()
	w.until(func() bool { return w.in(301) != "" })
	if w.in(300) != "" {
		t.Error("it is protected")
	}
}

// A server of several sessions leaves the one that started it, and ends with
// the last that could use it.
func TestSharedServer(t *testing.T) {
	w := newWork(t, enforced+"brokers:\n  shared:\n    - {name: build, match: {comm: lngtest-java, argv: --flag}}\n"+
		"    - {name: cache, match: {exe: /bin/lngtest-cache}, end: never}\n")
	second := w.session("user", 200, api.NewSession{GraceMS: ms(0)})
	w.session("else", 210, api.NewSession{GraceMS: ms(0)})
	serves := func(pid uint32, comm string) {
		w.k.Fork(100, pid, comm)
		w.proc(pid, 100, 1000, comm)
		w.k.Exec(pid, "/bin/"+comm, comm+"\x00--flag\x00")
		w.until(func() bool { return w.in(pid) != w.s.ID })
	}
	serves(101, "lngtest-java")
	serves(102, "lngtest-cache")
	w.k.Fork(101, 103, "lngtest-worker")
	doc := into[api.Session](w.do("user", "GET", "/v1/sessions/"+w.in(101), nil), http.StatusOK)
	if doc.Shared != "build" || !doc.Kept || doc.Until != nil || doc.Parent != "" {
		t.Errorf("%+v", doc)
	}
	w.k.Exit(100, 0)
	w.receipt(w.s.ID)
	w.restart() // whose rule it is, is remembered
	w.look()
	if w.dead(101) || w.dead(103) {
		t.Error("it ended with the first session")
	}
	w.k.Exit(200, 0)
	w.receipt(second.ID)
	w.look()
	if r := w.receipt(doc.ID); r.EndReason != "expired" || r.Verdict != "clean" || !w.dead(103) {
		t.Errorf("%+v", r)
	}
	if w.dead(102) {
		t.Error("the one that is never to end did")
	}
	// A daemon that remembers nothing finds the rule again.
	w.stop()
	if err := os.RemoveAll(filepath.Dir(w.i.history)); err != nil {
		t.Fatal(err)
	}
	w.start(Options{Version: "9.9.9", Policy: w.policed.file})
	w.until(func() bool {
		d := into[api.Session](w.do("user", "GET", "/v1/sessions/"+w.in(102), nil), http.StatusOK)
		return d.Shared == "cache" && d.KeepRule == "cache" && d.Reason != ""
	})
}

// What a process lost before it was adopted is found by the groups that only its
// own are in, whose leaders are dead, and by the name of the session.
func TestAdoptedOrphans(t *testing.T) {
	w := newWork(t, enforced)
	place := func(pid, parent, sid, pgid uint32, cgroup uint64, environ ...string) {
		t.Helper()
		w.stranger(pid, parent, "lngtest-p", environ...)
		w.k.Edit(pid, func(p *kerneltest.Proc) { p.SID, p.PGID, p.Cgroup = sid, pgid, cgroup })
	}
	const before, its = 7, 8 // cgroups
	place(390, 1, shell, 490, before)
	place(391, 1, 491, 491, its)
	place(400, shell, shell, 400, its) // 391 is in its cgroup, and older
	place(401, 400, 480, 480, before)  // its child led a session, which is dead
	place(402, 400, 400, 481, before)
	place(403, 400, shell, 490, before) // 390 is in that group, and older
	w.k.Advance(time.Second)
	place(410, 1, 480, 483, before)
	place(411, 1, shell, 481, before)
	place(412, 1, shell, 490, before)
	place(413, 1, 484, 484, its)
	place(414, 1, shell, 400, before) // its leader lives
	w.strangerOf(1001, 415, 1, "lngtest-p")
	w.k.Edit(415, func(p *kerneltest.Proc) { p.SID, p.PGID = 480, 480 })
	s := into[api.Session](w.do("user", "POST", "/v1/sessions", api.NewSession{Name: "old", Adopt: true, Root: api.Ref{PID: 400}}), http.StatusCreated)
	place(416, 1, shell, shell, before, "LINEAGE_SESSION="+s.ID)
	w.look()
	found := func() string {
		var all []string
		for _, b := range into[api.Session](w.do("user", "GET", "/v1/sessions/old", nil), http.StatusOK).Brokered {
			all = append(all, fmt.Sprintf("%d %s %s %v", b.Process.PID, b.Evidence.Source, b.Evidence.Confidence, b.Ends))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	w.until(func() bool { return strings.Count(found(), ",") == 3 })
	w.look()
	if got := found(); got != "410 sid weak false, 411 pgrp weak false, 414 pgrp weak false, 416 cookie weak false" {
		t.Error(got)
	}
	// Alone in it, it has what else is in its cgroup.
	place(500, shell, shell, shell, 9)
	w.k.Advance(time.Second)
	place(510, 1, 510, 510, 9)
	second := into[api.Session](w.do("user", "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 500}}), http.StatusCreated)
	w.look()
	w.until(func() bool { return w.in(510) != "" })
	why := into[api.Why](w.do("user", "GET", "/v1/why?ref=510", nil), http.StatusOK)
	if why.Session.BrokeredBy != second.ID || why.Brokered.Evidence.Source != "cgroup" || why.Brokered.Evidence.Confidence != "weak" {
		t.Errorf("%+v", why)
	}
	for _, pid := range []uint32{390, 391, 412, 413, 415} {
		if w.in(pid) != "" {
			t.Errorf("%d is in %s", pid, w.in(pid))
		}
	}
	into[api.Report](w.do("user", "POST", "/v1/sessions/old/end", api.EndRequest{Now: true}), http.StatusAccepted)
	w.receipt(s.ID)
	w.look()
	for _, pid := range []uint32{410, 411, 414, 416} {
		if w.dead(pid) {
			t.Errorf("weak evidence ended %d", pid)
		}
	}
}

// A daemon that remembers nothing knows from the kernel whose work a session
// holds.
func TestBrokersForgotten(t *testing.T) {
	w := newWork(t, enforced+"brokers: {end: all}\n")
	w.stranger(30, 1, "tmux")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	w.stranger(300, 30, "lngtest-pane")
	w.look()
	w.until(func() bool { return w.in(300) != "" })
	beside := w.in(300)
	w.stop()
	if err := os.RemoveAll(filepath.Dir(w.i.history)); err != nil {
		t.Fatal(err)
	}
	w.start(Options{Version: "9.9.9", Policy: w.policed.file})
	w.k.Exit(100, 0)
	if doc := into[api.Session](w.do("user", "GET", "/v1/sessions/"+beside, nil), http.StatusOK); doc.BrokeredBy != w.s.ID {
		t.Errorf("%+v", doc)
	}
	w.receipt(w.s.ID)
	w.look()
	if r := w.receipt(beside); r.EndReason != "ancestor" || r.Verdict != "clean" || !w.dead(300) {
		t.Errorf("%+v", r)
	}
}

// A daemon that is started again knows the secrets, and what was asked.
func TestBrokersRestart(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/crontab", "-", "--password=lngtest-secret")
	w.stranger(300, 1, "lngtest-job", w.token())
	w.look()
	w.brokered(2)
	w.restart()
	w.stranger(301, 1, "lngtest-job", w.token())
	w.look()
	w.until(func() bool { return w.in(301) == w.s.ID })
	if all := w.brokered(3); all[0].State != "pending" || all[0].Broker != "cron" || strings.Contains(fmt.Sprint(all[0].Asked.Argv), "lngtest-secret") {
		t.Errorf("%+v", all)
	}
}
