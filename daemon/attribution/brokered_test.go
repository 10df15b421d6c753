//go:build linux

package attribution_test

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
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// The token makes an outsider of the session's uid a member, with its children; the
// session ends with them.
func TestBrokeredByToken(t *testing.T) {
	w := newWork(t, enforced)
	w.outsider(30, 1, "lngtest-server")
	w.outsider(300, 30, "lngtest-job", "A=1", w.token())
	w.outsider(301, 300, "lngtest-child")
	w.outsiderOf(1001, 310, 30, "lngtest-other", w.token())                            // of another uid
	w.outsider(311, 30, "lngtest-wrong", "LINEAGE_TOKEN=x"+w.s.Token)                  // nearly
	w.outsider(312, 30, "lngtest-false", "LINEAGE_SESSION="+w.s.ID, "LINEAGE_TOKEN=1") // a false secret
	second := w.Session("user", 200, api.NewSession{Name: "second"})
	w.outsider(313, 1, "lngtest-job", "LINEAGE_TOKEN="+second.Token)
	w.look()
	w.members(300, 301)
	w.beside(313)
	w.outside(30, 310, 311, 312)
	require.Equal(t, w.in(313), second.ID)
	all := w.brokered(1)
	if b := all[0]; b.State != "attributed" || b.Process.PID != 300 || b.Evidence.Kind != "adopted" || b.Evidence.Source != "env" ||
		b.Evidence.Confidence != "strong" || !b.Ends || b.Session != w.s.ID || b.Asked != nil {
		t.Errorf("%+v", b)
	}
	why := daemontest.Get[api.Why](w, "user", "/v1/why?ref=300")
	if len(why.Edges) == 0 || why.Edges[0].Kind != "adopted" || why.Edges[0].Evidence.Source != "env" {
		t.Errorf("%+v", why)
	}
	if got := w.planned(w.s.ID); got[300] != "adopted (env), strong" || got[301] != "adopted (parent), strong, child of 300 lngtest-job" {
		t.Errorf("%+v", got)
	}
	w.K.Exit(100, 0)
	r := w.Receipt(w.s.ID)
	if r.Verdict != "clean" || len(r.Delegated) != 1 || !w.Dead(300) || !w.Dead(301) {
		t.Errorf("%+v", r)
	}
	w.Survive([]uint32{30, 310, 311, 312}, 30, 310, 311, 312)
	w.Halt()
	if text := w.Audit(); !strings.Contains(text, "adopted(env) for session "+w.s.ID) || strings.Contains(text, w.s.Token) {
		t.Errorf("audit: %s", text)
	}
}

// With observe, what was found is shown beside the session and outlives it.
func TestBrokeredObserved(t *testing.T) {
	w := newWork(t, "mode: observe\n")
	w.outsider(300, 1, "lngtest-job", w.token())
	w.outsider(301, 300, "lngtest-child")
	w.look()
	all := w.brokered(1)
	w.Until(func() bool { return w.in(301) != "" })
	if w.in(300) == w.s.ID || w.in(300) != all[0].Session || w.in(301) != w.in(300) || all[0].Ends || !all[0].Observed {
		t.Errorf("%s, %+v", w.in(300), all[0])
	}
	companion := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+w.in(300))
	if companion.DelegatedBy != w.s.ID || companion.Evidence != "adopted" || companion.Parent != "" || companion.Root.Evidence.Source != "env" {
		t.Errorf("%+v", companion)
	}
	w.K.Exit(100, 0)
	w.Receipt(w.s.ID)
	w.look()
	w.Until(func() bool {
		r := daemontest.Into[api.Report](w.Do("root", "GET", "/v1/sessions/"+companion.ID+"/report", nil), http.StatusAccepted)
		return len(r.WouldEnd) == 1 && r.WouldEnd[0] == "ancestor"
	})
	if w.Dead(300) || len(w.K.Signals()) != 0 {
		t.Errorf("%+v", w.K.Signals())
	}
}

// A secret that is passed on as an argument is not shown.
func TestTokenInCommand(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/tmux", "neww", "-e", w.token(), "sleep 9")
	w.File(101, "cmdline", "tmux\x00-e\x00"+w.token()+"\x00")
	for _, path := range []string{"/v1/processes/101", "/v1/why?ref=101", "/v1/sessions/" + w.s.ID, "/v1/sessions/" + w.s.ID + "/tree"} {
		if text := string(w.Do("root", "GET", path, nil).Body); !strings.Contains(text, "LINEAGE_TOKEN=*") || strings.Contains(text, w.s.Token) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// A request without a match is reported; a refused one, or one that the session forked
// itself, is not.
func TestUnattributed(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/crontab", "-")
	w.runs(102, "/usr/bin/tmux", "new", "-d")
	w.runs(103, "/usr/bin/tmux", "-L", "own", "new", "-d")
	w.K.Fork(103, 104, "tmux")
	w.runs(105, "/usr/bin/tmux", "-L", "own", "neww")
	w.runs(106, "/usr/bin/at", "now")
	w.runs(107, "/usr/bin/docker", "run", "alpine")
	w.runs(108, "/usr/bin/docker", "ps")
	for pid, status := range map[uint32]uint32{101: 0, 102: 0, 103: 0, 105: 0, 106: 1 << 8, 107: 1 << 8} {
		w.K.Exit(pid, status)
	}
	states := func(all []api.Delegated) (text string) {
		for _, b := range all {
			text += b.Broker + " " + b.State + ", "
		}
		return text
	}
	require.Equal(t, states(w.brokered(3)), "cron pending, tmux pending, docker pending, ")
	w.K.Advance(3 * time.Second)
	require.Equal(t, states(w.brokered(3)), "cron pending, tmux unattributed, docker unattributed, ")
	// The list of orphans shows requests without a process too.
	var listed []string
	for _, o := range daemontest.Get[api.Orphans](w, "user", "/v1/orphans").Items {
		if o.Why == api.WhyDelegated {
			listed = append(listed, fmt.Sprintf("%d %s %s %s %s", o.PID, o.Comm, o.State, o.Session, o.Delegated.State))
		}
	}
	want := strings.ReplaceAll("101 crontab exited S pending, 102 tmux exited S unattributed, 107 docker exited S unattributed", "S", w.s.ID)
	require.Equal(t, strings.Join(listed, ", "), want)
	w.K.Exit(100, 0)
	require.Equal(t, states(w.Receipt(w.s.ID).Delegated), "cron unattributed, tmux unattributed, docker unattributed, ")
}

// Two hundred processes have the name, the command line, the directory and the
// variables of a brokered one, but not its secret: none is touched.
func TestBrokerLookalikes(t *testing.T) {
	for _, end := range []string{"strong", "all"} {
		w := newWork(t, enforced+"brokers: {end: "+end+"}\n")
		w.outsider(300, 1, "lngtest-job", "LINEAGE_SESSION="+w.s.ID, w.token())
		other := strings.Repeat("A", len(w.s.Token))
		alike := []uint32{uint32(max(os.Getpid(), 1000))}
		for pid := uint32(1000); pid < 1200; pid++ {
			alike = append(alike, pid)
		}
		for _, pid := range slices.Compact(slices.Sorted(slices.Values(alike))) {
			w.outsider(pid, 1, "lngtest-job", "LINEAGE_SESSION="+w.s.ID, "LINEAGE_TOKEN="+other)
		}
		w.look()
		w.Until(func() bool { return w.in(300) == w.s.ID })
		w.look()
		w.K.Exit(100, 0)
		w.Receipt(w.s.ID)
		w.look()
		for _, pid := range alike {
			if p := w.K.Proc(pid); p == nil || p.Dead || p.Session != 0 {
				t.Fatalf("%+v", p)
			}
		}
		if !w.Dead(300) {
			t.Error("the one that has it lives")
		}
		for _, s := range w.K.Signals() {
			if slices.Contains(alike, s.To.PID) {
				t.Errorf("%+v", s)
			}
		}
	}
}

// Processes on the protect list are never adopted, and only evidence that the policy
// accepts counts.
func TestBrokersSpare(t *testing.T) {
	w := newWork(t, enforced+"brokers: {adopt: [unit]}\nprotect:\n  - {name: db, match: {exe: /bin/lngtest-db}, reason: data}\n")
	w.outsider(300, 1, "lngtest-job", w.token())
	w.look()
	w.outside(300) // the policy does not take env
	w = newWork(t, enforced+"protect:\n  - {name: db, match: {exe: /bin/lngtest-db}, reason: data}\n")
	w.outsider(300, 1, "lngtest-db", w.token())
	w.outsider(301, 1, "lngtest-job", w.token())
	w.unseen(func() {
		w.outsider(302, 1, "lngtest-db", w.token()) // its link shows a file that it does not execute
		w.K.Edit(302, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
		w.outsider(303, 1, "lngtest-db", w.token()) // it may have set its file itself
		w.K.Edit(303, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{File: true, Inside: true} })
	})
	w.look()
	w.Until(func() bool { return w.in(301) != "" && w.in(302) != "" && w.in(303) != "" })
	w.outside(300) // it is protected

	w = newWork(t, enforced)
	w.outsider(300, 1, "lngtest-login", w.token()) // an ancestor of the daemon
	w.outsider(301, 1, "lngtest-sshd", w.token())
	w.Exe(301, "/usr/sbin/sshd") // protected by default
	w.outsider(302, 1, "lngtest-job", w.token())
	w.Under(300)
	w.look()
	w.members(302)
	w.outside(300, 301)
}

// What a process lost before it was adopted is found by groups that contain only its
// own processes and whose leaders are dead, and by the name of the session.
func TestAdoptedOrphans(t *testing.T) {
	w := newWork(t, enforced)
	place := w.placed
	const before, its = 7, 8 // cgroups
	place(390, 1, daemontest.Shell, 490, before)
	place(391, 1, 491, 491, its)
	place(400, daemontest.Shell, daemontest.Shell, 400, its) // 391 is in its cgroup, and older
	place(401, 400, 480, 480, before)                        // its child led a session, which is dead
	place(402, 400, 400, 481, before)
	place(403, 400, daemontest.Shell, 490, before) // 390 is in that group, and older
	w.K.Advance(time.Second)
	place(410, 1, 480, 483, before)
	place(411, 1, daemontest.Shell, 481, before)
	place(412, 1, daemontest.Shell, 490, before)
	place(413, 1, 484, 484, its)
	place(414, 1, daemontest.Shell, 400, before) // its leader lives
	w.unseen(func() {
		w.outsiderOf(1001, 415, 1, "lngtest-p")
		w.K.Edit(415, func(p *kerneltest.Proc) { p.SID, p.PGID = 480, 480 })
	})
	s := daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions", api.NewSession{Name: "old", Adopt: true, Root: api.Ref{PID: 400}}), http.StatusCreated)
	place(416, 1, daemontest.Shell, daemontest.Shell, before, "LINEAGE_SESSION="+s.ID)
	w.look()
	found := func() string {
		var all []string
		for _, b := range daemontest.Get[api.Session](w, "user", "/v1/sessions/old").Delegated {
			all = append(all, fmt.Sprintf("%d %s %s %v", b.Process.PID, b.Evidence.Source, b.Evidence.Confidence, b.Ends))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	w.Until(func() bool { return strings.Count(found(), ",") == 3 })
	w.look()
	require.Equal(t, found(), "410 sid weak false, 411 pgrp weak false, 414 pgrp weak false, 416 cookie weak false")
	// A root that is alone in its cgroup gets the other processes that are in it.
	place(500, daemontest.Shell, daemontest.Shell, daemontest.Shell, 9)
	w.K.Advance(time.Second)
	place(510, 1, 510, 510, 9)
	w.look() // finds nothing, so often that 510 is not looked at again soon
	w.walk()
	second := daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 500}}), http.StatusCreated)
	why := w.attributed(510)
	if why.Session.DelegatedBy != second.ID || why.Delegated.Evidence.Source != "cgroup" || why.Delegated.Evidence.Confidence != "weak" {
		t.Errorf("%+v", why)
	}
	w.outside(390, 391, 412, 413, 415)
	w.End("user", s.ID)
	w.look()
	w.Survive([]uint32{410, 411, 414, 416}, 410, 411, 414, 416) // the evidence is weak
}

// A daemon that remembers nothing learns from the kernel for which session a companion
// session works. The end of that counts for its user.
func TestBrokersForgotten(t *testing.T) {
	w := newWork(t, enforced+"brokers: {end: all}\nbreaker: {ends_per_minute: 1}\n")
	companion := w.panes(300)
	w.Stop()
	require.NoError(t, os.RemoveAll(filepath.Dir(w.Instance.History)))
	w.Start()
	w.K.Exit(100, 0)
	if doc := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+companion); doc.DelegatedBy != w.s.ID {
		t.Errorf("%+v", doc)
	}
	w.Receipt(w.s.ID)
	w.look()
	if r := w.Receipt(companion); r.EndReason != "ancestor" || r.Verdict != "clean" || !w.Dead(300) {
		t.Errorf("%+v", r)
	}
	if may, _ := w.Service.Rules.MayEnd(1000); may {
		t.Error("the user's breaker has not counted it")
	}
}

// A restarted daemon knows the secrets, and the requests.
func TestBrokersRestart(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/crontab", "-", "--password=lngtest-secret")
	w.outsider(300, 1, "lngtest-job", w.token())
	w.look()
	w.brokered(2)
	first := w.s.ID
	w.Restart()
	w.outsider(301, 1, "lngtest-job", w.token())
	w.look()
	w.members(301)
	// A client that lost the daemon before its reply gets the same session again, with a token that works.
	w.s = daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions", api.NewSession{Name: "work", Root: api.Ref{PID: 100}}), http.StatusCreated)
	require.Equal(t, w.s.ID, first)
	w.outsider(302, 1, "lngtest-job", w.token())
	w.look()
	w.members(302)
	if all := w.brokered(4); all[0].State != "pending" || all[0].Broker != "cron" || strings.Contains(fmt.Sprint(all[0].Asked.Argv), "lngtest-secret") {
		t.Errorf("%+v", all)
	}
}

// A session that is over in the kernel, and not here yet, takes no work: a process on weak
// evidence gets another companion session, and one on strong evidence a companion session.
func TestBrokeredLate(t *testing.T) {
	w := newWork(t, enforced)
	early := w.panes(300)
	w.K.Fail("Enter", tracer.ErrBusy)
	w.outsider(310, 30, "lngtest-late")
	w.outsider(320, 1, "lngtest-strong", w.token())
	w.look()
	if late := w.beside(310); late == early || late == w.beside(320) {
		t.Errorf("300 %s, 310 %s, 320 %s", early, late, w.in(320))
	}
}
