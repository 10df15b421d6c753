//go:build linux

package daemon

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

const agentRules = `mode: enforce
agents:
  - name: lngtest
    enabled: true
    match: {comm: lngtest-agent, exe: /bin/lngtest-agent, uid: [1000]}
    grace: 3s
    max_processes: 40
    idle: 30m
  - name: lngtest-task
    enabled: true
    match: {comm: lngtest-agent, parent: {comm: lngtest-service}}
    max_rss: 1GiB
    on_root_exit: report
  - {name: lngtest-off, match: {comm: lngtest-off}}
`

// becomes makes a process exec under a comm, as procfs shows it too.
func (w *world) becomes(pid, parent, uid uint32, comm string) tracer.SessionID {
	w.Helper()
	os.RemoveAll(w.h.proc.Path(pid, ""))
	w.proc(pid, parent, uid, comm)
	return w.k.Become(pid, comm)
}

// held is the kernel's record of a session, once the rules have judged it and the
// registry knows it.
func (w *world) held(id tracer.SessionID) (info tracer.SessionInfo) {
	w.Helper()
	w.until(func() bool {
		var err error
		info, err = w.k.Session(id)
		known := false
		_ = w.s.registry.Read(func(v registry.View) {
			x := v.Session(id)
			known = x != nil && x.Info().Rule != 0
		})
		return err == nil && info.Rule != 0 && known
	})
	return info
}

func TestAgents(t *testing.T) {
	p := newPoliced(t, agentRules)
	if all := p.k.Agents(); len(all) != 1 || all[0].Comm != "lngtest-agent" || !all[0].Nests || !all[0].KeepOnRootExit {
		t.Fatalf("the kernel looks for %+v", all)
	}
	p.host(300, shell, 1000, "lngtest-sh")
	id := p.becomes(300, shell, 1000, "lngtest-agent")
	info := p.held(id)
	if info.Name != "lngtest" || info.Grace != 3*time.Second || info.MaxProcesses != 40 || info.Idle != 30*time.Minute {
		t.Errorf("%+v", info)
	}
	x := into[api.PolicyExplain](p.do("root", "GET", "/v1/policy/explain?ref=300", nil), http.StatusOK)
	if len(x.Items) != 1 || x.Items[0].Rule != "agents.lngtest" || !strings.HasSuffix(x.Items[0].Origin, "policy.yaml:4") ||
		x.Items[0].Effect != "opened session "+id.String()+", grace 3s, max_processes 40, idle 30m0s" {
		t.Errorf("explained as %+v", x.Items)
	}
	p.k.Fork(300, 301, "lngtest-agent")
	p.proc(301, 300, 1000, "lngtest-agent")
	x = into[api.PolicyExplain](p.do("root", "GET", "/v1/policy/explain?ref=301", nil), http.StatusOK)
	if len(x.Items) != 1 || x.Items[0].Effect != "no effect: in session "+id.String()+", which this rule opened for pid 300" {
		t.Errorf("explained as %+v", x.Items)
	}
	p.host(305, shell, 1000, "lngtest-agent")
	x = into[api.PolicyExplain](p.do("root", "GET", "/v1/policy/explain?ref=305", nil), http.StatusOK)
	if len(x.Items) != 1 || x.Items[0].Effect != "opens a session, grace 3s, max_processes 40, idle 30m0s" {
		t.Errorf("explained as %+v", x.Items)
	}
	d := into[api.Session](p.do("user", "GET", "/v1/sessions/lngtest", nil), http.StatusOK)
	if d.Rule != "lngtest" || d.UID != 1000 || d.ID != id.String() {
		t.Errorf("%+v", d)
	}
	p.k.Exit(300, 0)
	if r := p.receipt(id.String()); r.EndReason != "root_exit" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}

// TestMissedAgent: the kernel skipped the exec hook for an agent. The next look opens its session,
// and the rules judge it like any other.
func TestMissedAgent(t *testing.T) {
	p := newPoliced(t, agentRules)
	p.host(300, shell, 1000, "lngtest-agent")
	p.k.BecomeUnseen(300, "lngtest-agent")
	if _, err := p.s.registry.Resync(registry.CauseNone); err != nil {
		t.Fatal(err)
	}
	if info := p.held(p.k.Proc(300).Session); info.Name != "lngtest" || info.Root.PID != 300 {
		t.Errorf("%+v", info)
	}
}

// procfs shows a script by its interpreter's name. Only the kernel knows as what it was
// run.
func TestAgentIsAScript(t *testing.T) {
	p := newPoliced(t, "mode: enforce\nagents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent, exe: /bin/lngtest-sh}}\n")
	p.host(300, shell, 1000, "lngtest-sh")
	if info := p.held(p.k.Become(300, "lngtest-agent")); info.Name != "lngtest" {
		t.Errorf("%+v", info)
	}
}

// A rule for the task children of a service opens sessions inside a session too;
// other rules do not.
func TestAgentInSession(t *testing.T) {
	p := newPoliced(t, agentRules)
	s := p.session("root", 100, api.NewSession{})
	p.k.Fork(100, 101, "lngtest-service")
	p.proc(101, 100, 0, "lngtest-service")
	p.k.Fork(101, 102, "lngtest-x")
	task := p.held(p.becomes(102, 101, 0, "lngtest-agent"))
	if task.Name != "lngtest-task" || task.MaxRSS != 1<<30 || task.Parent.String() != s.ID {
		t.Errorf("%+v", task)
	}
	x := into[api.PolicyExplain](p.do("root", "GET", "/v1/policy/explain?ref=102", nil), http.StatusOK)
	if len(x.Items) != 1 || !strings.HasPrefix(x.Items[0].Effect, "opened session "+task.ID.String()+", ") {
		t.Errorf("explained as %+v", x.Items)
	}
	p.k.Fork(100, 103, "lngtest-x")
	inner := p.becomes(103, 100, 1000, "lngtest-agent") // the first rule does not apply to members
	p.until(func() bool { return p.k.Proc(103).Session.String() == s.ID })
	p.until(func() bool { _, err := p.k.Session(inner); return err != nil })
}

// Where only the name matches, the session is dissolved, children included, without a signal.
func TestLookalike(t *testing.T) {
	p := newPoliced(t, agentRules)
	for _, tt := range []struct {
		pid, uid uint32
		why      string
	}{
		{300, 1001, "another uid"},
		{310, 1000, "another file"},
	} {
		p.host(tt.pid, shell, tt.uid, "lngtest-sh")
		if tt.why == "another file" {
			os.RemoveAll(p.h.proc.Path(tt.pid, ""))
			p.proc(tt.pid, shell, tt.uid, "lngtest-agent")
			os.Remove(p.h.proc.Path(tt.pid, "exe"))
			os.Symlink("/tmp/lngtest-agent", p.h.proc.Path(tt.pid, "exe"))
			p.k.Become(tt.pid, "lngtest-agent")
		} else {
			p.becomes(tt.pid, shell, tt.uid, "lngtest-agent")
		}
		p.k.Fork(tt.pid, tt.pid+1, "lngtest-child")
		p.until(func() bool {
			all, err := p.k.Sessions()
			return err == nil && len(all) == 0
		})
		if pr := p.k.Proc(tt.pid + 1); pr.Session != 0 || pr.Dead {
			t.Errorf("%s: child %+v", tt.why, pr)
		}
		p.k.Exit(tt.pid, 0)
	}
	if n := len(p.k.Signals()); n != 0 {
		t.Errorf("%d signals: %v", n, p.k.Signals())
	}
	p.until(func() bool { // the kernel gets it first
		return len(into[api.Sessions](p.do("root", "GET", "/v1/sessions?state=all", nil), http.StatusOK).Items) == 0
	})
	if text := p.audit(); strings.Count(text, "no rule matches") != 2 {
		t.Errorf("audit: %s", text)
	}
}

func (p *policed) audit() string {
	p.Helper()
	text, err := os.ReadFile(p.i.Audit)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// With observe, a rule's session is shown, but its limits are not enforced.
func TestAgentsObserved(t *testing.T) {
	p := newPoliced(t, strings.Replace(agentRules, "enforce", "observe", 1))
	p.host(300, shell, 1000, "lngtest-sh")
	id := p.becomes(300, shell, 1000, "lngtest-agent")
	if info := p.held(id); info.MaxProcesses != 0 || info.Idle != 0 {
		t.Errorf("%+v", info)
	}
	p.k.Fork(300, 301, "lngtest-child")
	p.k.Exit(300, 0)
	p.k.AllRead()
	if pr := p.k.Proc(301); pr.Dead || len(p.k.Signals()) != 0 {
		t.Errorf("%+v, %v", pr, p.k.Signals())
	}
	// Its limits apply once the policy is enforced.
	p.write(agentRules)
	into[api.Policy](p.do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	r := p.receipt(id.String())
	if r.EndReason != "root_exit" || r.Killed+r.Left+len(r.Processes) == 0 || len(r.WouldEnd) != 1 || r.WouldEnd[0] != "root_exit" {
		t.Errorf("%+v", r)
	}
}

// What runs already when the daemon starts is found, with its children.
func TestAgentsRunning(t *testing.T) {
	p := newPoliced(t, agentRules)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p.host(300, shell, 1000, "lngtest-agent")
	p.host(301, 300, 1000, "lngtest-child")
	p.host(302, shell, 1001, "lngtest-agent")
	p.host(303, shell, 1000, "lngtest-off")
	p.start(Options{Version: "9.9.9", Policy: p.file})
	p.until(func() bool { return p.k.Proc(301).Session != 0 })
	info := p.held(p.k.Proc(300).Session)
	if info.Name != "lngtest" || info.UID != 1000 || info.Live != 2 || p.k.Proc(301).Session != info.ID {
		t.Errorf("%+v", info)
	}
	if p.k.Proc(302).Session != 0 || p.k.Proc(303).Session != 0 {
		t.Error("strangers were adopted")
	}
}

// A script that runs already is known by the path that its interpreter was given.
func TestAgentsRunningScripts(t *testing.T) {
	p := newPoliced(t, "mode: enforce\nagents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent-w}}\n")
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	for n, command := range []string{
		"vim /usr/bin/lngtest-agent-w",     // no interpreter
		"bash -c /usr/bin/lngtest-agent-w", // its text
		"node lngtest-agent-w",             // no path
		"node /usr/bin/other /usr/bin/lngtest-agent-w",
		"python3 -m /lngtest-agent-w",
		"node /usr/bin/lngtest-agent-with-a-long-name --flag",
		"python3.11 --x ./bin/lngtest-agent-w",
	} {
		pid, argv := uint32(300+n), strings.Fields(command)
		p.host(pid, shell, 1000, "MainThread")
		os.Remove(p.h.proc.Path(pid, "exe"))
		if err := os.Symlink("/opt/bin/"+argv[0], p.h.proc.Path(pid, "exe")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.h.proc.Path(pid, "cmdline"), []byte(strings.Join(argv, "\x00")+"\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.start(Options{Version: "9.9.9", Policy: p.file})
	for _, pid := range []uint32{306, 305} { // the youngest comes last
		p.until(func() bool { return p.k.Proc(pid).Session != 0 })
		if info := p.held(p.k.Proc(pid).Session); info.Name != "lngtest" {
			t.Errorf("%+v", info)
		}
		x := into[api.PolicyExplain](p.do("root", "GET", fmt.Sprintf("/v1/policy/explain?ref=%d", pid), nil), http.StatusOK)
		if len(x.Items) != 1 || x.Items[0].Rule != "agents.lngtest" {
			t.Errorf("%d is explained as %+v", pid, x.Items)
		}
	}
	for pid := uint32(300); pid < 305; pid++ {
		if p.k.Proc(pid).Session != 0 {
			t.Errorf("%d was adopted", pid)
		}
	}
}

func TestAdopt(t *testing.T) {
	w := newWorld(t)
	adopt := func(who string, pid int, req api.NewSession) answered {
		req.Root, req.Adopt = api.Ref{PID: pid}, true
		return w.do(who, "POST", "/v1/sessions", req)
	}
	w.host(300, shell, 1000, "lngtest-old")
	w.host(301, 300, 1000, "lngtest-child")
	w.host(302, 301, 1000, "lngtest-other")
	adopt("else", 300, api.NewSession{}).refused(api.CodeDenied)
	adopt("away", 300, api.NewSession{}).refused(api.CodePIDNamespace)
	adopt("user", 999, api.NewSession{}).refused(api.CodeNotFound)
	adopt("root", os.Getpid(), api.NewSession{}).refused(api.CodeGuarded)
	s := into[api.Session](adopt("user", 300, api.NewSession{Name: "found"}), http.StatusCreated)
	if s.Token != "" || s.Owner != nil || s.UID != 1000 {
		t.Errorf("%+v", s)
	}
	if s := into[api.Session](w.do("user", "GET", "/v1/sessions/found", nil), http.StatusOK); s.Live != 3 {
		t.Errorf("%+v", s)
	}
	adopt("301", 301, api.NewSession{}).refused(api.CodeDenied) // a member
	// A member's PID makes a nested session of it and of what it created.
	w.k.Fork(301, 303, "lngtest-grandchild")
	n := into[api.Session](adopt("root", 301, api.NewSession{}), http.StatusCreated)
	if n.Parent != s.ID {
		t.Errorf("%+v", n)
	}
	for pid, want := range map[uint32]string{300: s.ID, 301: n.ID, 302: n.ID, 303: n.ID} {
		if got := w.k.Proc(pid).Session.String(); got != want {
			t.Errorf("%d is in %s, want %s", pid, got, want)
		}
	}
}

func TestKeep(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{Name: "work"})
	for _, f := range [][2]uint32{{100, 101}, {101, 102}, {102, 103}, {100, 104}} {
		w.k.Fork(f[0], f[1], "lngtest-member")
		w.proc(f[1], f[0], 1000, "lngtest-member")
	}
	w.k.Exit(102, 0) // 103 is an orphan of the branch to keep
	ref := func(pid uint32) api.Ref {
		return api.Ref{PID: int(pid), StartNS: api.U64(w.k.Proc(pid).Start)}
	}
	until := time.Now().Add(time.Hour)
	keep := func(who string, refs ...api.Ref) answered {
		return w.do(who, "POST", "/v1/keep", api.KeepRequest{Refs: refs, Reason: "shared cache", Until: until})
	}
	keep("else", ref(101)).refused(api.CodeDenied)
	keep("101", ref(101)).refused(api.CodeDenied) // itself
	keep("104", ref(101)).refused(api.CodeDenied) // another of its session
	keep("user", ref(100)).refused(api.CodeGuarded)
	keep("user", api.Ref{PID: 101}).refused(api.CodeBadRequest)
	keep("user").refused(api.CodeBadRequest)
	keep("user", api.Ref{PID: 101, StartNS: 1}).refused(api.CodeIdentity)
	keep("root", ref(shell)).refused(api.CodeNotFound)
	w.do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Reason: " ", Until: until}).refused(api.CodeBadRequest)
	w.do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Reason: "r", Until: time.Now()}).refused(api.CodeBadRequest)

	w.do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Name: "a b", Reason: "r", Until: until}).refused(api.CodeBadRequest)
	w.do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Name: "work", Reason: "r", Until: until}).refused(api.CodeBusyName)

	k := into[api.Session](keep("user", ref(101)), http.StatusCreated)
	if k.Name != "lngtest-member" || !k.Kept || k.Reason != "shared cache" || k.Until == nil || k.Parent != "" || k.UID != 1000 {
		t.Errorf("%+v", k)
	}
	for pid, want := range map[uint32]string{100: s.ID, 101: k.ID, 103: k.ID, 104: s.ID} {
		if got := w.k.Proc(pid).Session.String(); got != want {
			t.Errorf("%d is in %s, want %s", pid, got, want)
		}
	}
	keep("user", ref(101)).refused(api.CodeBadRequest) // kept already
	w.k.Fork(100, 105, "lngtest-member")
	w.k.Fork(100, 106, "lngtest-member")
	w.proc(105, 100, 1000, "lngtest-member")
	w.proc(106, 100, 1000, "lngtest-member")
	if again := into[api.Session](keep("user", ref(105)), http.StatusCreated); again.Name != "lngtest-member-2" {
		t.Errorf("%+v", again)
	}
	named := w.do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(106)}, Name: "cache", Reason: "r", Until: until})
	if d := into[api.Session](named, http.StatusCreated); d.Name != "cache" {
		t.Errorf("%+v", d)
	}
	into[api.Report](w.do("user", "POST", "/v1/sessions/work/end", api.EndRequest{Now: true}), http.StatusAccepted)
	if r := w.receipt(s.ID); r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
	dead := func(pid uint32) bool { p := w.k.Proc(pid); return p == nil || p.Dead }
	if dead(101) || dead(103) || !dead(104) {
		t.Error("the end met the kept ones, or not the others")
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.start(w.o) // the reason for keeping is remembered
	if d := into[api.Session](w.do("user", "GET", "/v1/sessions/lngtest-member", nil), http.StatusOK); d.ID != k.ID || !d.Kept || d.Reason != "shared cache" || d.Until == nil || d.KeptBy == nil || d.KeptBy.UID != 1000 {
		t.Errorf("%+v", d)
	}
}

// A rule keeps a member when it becomes the program, and what runs when it is read.
func TestKeepRule(t *testing.T) {
	const rule = "keep:\n  - {name: cache, match: {exe: /bin/lngtest-cache}, reason: shared, until: 2099-01-01}\n  - {name: old, match: {exe: /bin/lngtest-old}, reason: over, until: 2001-01-01}\n"
	p := newPoliced(t, rule)
	s := p.session("user", 100, api.NewSession{})
	for _, pid := range []uint32{101, 102} {
		p.k.Fork(100, pid, "lngtest-x")
	}
	p.proc(101, 100, 1000, "lngtest-cache")
	p.k.Exec(101, "/bin/lngtest-cache", "lngtest-cache\x00")
	p.proc(102, 100, 1000, "lngtest-old")
	p.k.Exec(102, "/bin/lngtest-old", "lngtest-old\x00")
	p.until(func() bool { return p.k.Proc(101).Session.String() != s.ID })
	var k *api.Session
	p.until(func() bool { // the kernel has it before the daemon has noted why
		k = into[api.Session](p.do("root", "GET", "/v1/sessions/"+p.k.Proc(101).Session.String(), nil), http.StatusOK)
		return k.Kept
	})
	if k.Name != "lngtest-cache" || k.Reason != "shared" || k.Until == nil || k.Until.Before(time.Now()) {
		t.Errorf("%+v", k)
	}
	if got := p.k.Proc(102).Session.String(); got != s.ID {
		t.Errorf("a void rule kept 102 in %s", got)
	}
	p.write("")
	into[api.Policy](p.do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	p.k.Fork(100, 103, "lngtest-x")
	p.proc(103, 100, 1000, "lngtest-cache")
	p.k.Exec(103, "/bin/lngtest-cache", "lngtest-cache\x00")
	p.k.AllRead()
	p.write(rule)
	into[api.Policy](p.do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	p.until(func() bool { return p.k.Proc(103).Session.String() != s.ID })
	p.until(func() bool { return strings.Count(p.audit(), "rule cache") == 2 })
}
