//go:build linux

package rules_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

type world struct{ *daemontest.Daemon }

func newWorld(t *testing.T, options ...daemontest.Option) *world {
	t.Helper()
	return &world{daemontest.New(t, options...)}
}

const agentRules = `mode: enforce
agents:
  - name: lngtest
    enabled: true
    match: {comm: lngtest-agent, exe: /bin/lngtest-agent, uid: [1000]}
    grace: 3s
    max_processes: 40
    idle: 30m
    limits: {cpus: 2.5}
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
	os.RemoveAll(w.Host.Proc.Path(pid, ""))
	w.Proc(pid, parent, uid, comm)
	return w.K.Become(pid, comm)
}

// held is the kernel's record of a session, once the rules have judged it and the
// registry knows it.
func (w *world) held(id tracer.SessionID) (info tracer.SessionInfo) {
	w.Helper()
	w.Until(func() bool {
		var err error
		info, err = w.K.Session(id)
		known := false
		_ = w.Service.Registry.Read(func(v registry.View) {
			x := v.Session(id)
			known = x != nil && x.Info().Rule != 0
		})
		return err == nil && info.Rule != 0 && known
	})
	return info
}

// explained is the one rule that matches a process.
func (w *world) explained(pid uint32) api.PolicyRule {
	w.Helper()
	d := daemontest.Get[api.PolicyExplain](w, "root", fmt.Sprintf("/v1/policy/explain?ref=%d", pid))
	if len(d.Items) != 1 {
		w.Fatalf("%d is explained as %+v", pid, d.Items)
	}
	return d.Items[0]
}

func TestAgents(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(agentRules))
	if all := p.K.Settings().Agents; len(all) != 1 || all[0].Comm != "lngtest-agent" || !all[0].Nests || !all[0].KeepOnRootExit {
		t.Fatalf("the kernel looks for %+v", all)
	}
	p.Add(300, daemontest.Shell, 1000, "lngtest-sh")
	id := p.becomes(300, daemontest.Shell, 1000, "lngtest-agent")
	info := p.held(id)
	if info.Name != "lngtest" || info.Grace != 3*time.Second || info.MaxProcesses != 40 || info.Idle != 30*time.Minute {
		t.Errorf("%+v", info)
	}
	if x := p.explained(300); x.Rule != "agents.lngtest" || !strings.HasSuffix(x.Origin, "policy.yaml:4") ||
		x.Effect != "opened session "+id.String()+", grace 3s, max_processes 40, idle 30m0s, at most 2.5 CPUs" {
		t.Errorf("explained as %+v", x)
	}
	p.Fork(300, 301, 1000, "lngtest-agent")
	if x := p.explained(301); x.Effect != "in session "+id.String()+", which this rule opened for pid 300" {
		t.Errorf("explained as %+v", x)
	}
	p.Add(305, daemontest.Shell, 1000, "lngtest-agent")
	if x := p.explained(305); x.Effect != "opens a session, grace 3s, max_processes 40, idle 30m0s, at most 2.5 CPUs" {
		t.Errorf("explained as %+v", x)
	}
	d := daemontest.Get[api.Session](p, "user", "/v1/sessions/lngtest")
	if d.Rule != "lngtest" || d.UID != 1000 || d.ID != id.String() {
		t.Errorf("%+v", d)
	}
	p.K.Exit(300, 0)
	if r := p.Receipt(id.String()); r.EndReason != "root_exit" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}

// TestAgentIsTold: a reader that got the beginning of the session gets its rule too.
func TestAgentIsTold(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(agentRules))
	p.Add(300, daemontest.Shell, 1000, "lngtest-sh")
	l := p.Events("root", "?type=session")
	id := p.becomes(300, daemontest.Shell, 1000, "lngtest-agent")
	for {
		ev := l.Next()
		if ev == nil {
			t.Fatal("no event names the rule")
		}
		if ev.Session == id.String() && ev.Subject.Rule == "lngtest" && ev.State == "active" {
			break
		}
	}
}

// procfs shows a script by its interpreter's name. Only the kernel knows as what it was
// run.
func TestAgentIsAScript(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\nagents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent, exe: /bin/lngtest-sh}}\n"))
	p.Add(300, daemontest.Shell, 1000, "lngtest-sh")
	if info := p.held(p.K.Become(300, "lngtest-agent")); info.Name != "lngtest" {
		t.Errorf("%+v", info)
	}
}

// A rule for the task children of a service opens sessions inside a session too;
// other rules do not.
func TestAgentInSession(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(agentRules))
	s := p.Session("root", 100, api.NewSession{})
	p.Fork(100, 101, 0, "lngtest-service")
	p.K.Fork(101, 102, "lngtest-x")
	task := p.held(p.becomes(102, 101, 0, "lngtest-agent"))
	if task.Name != "lngtest-task" || task.MaxRSS != 1<<30 || task.Parent.String() != s.ID {
		t.Errorf("%+v", task)
	}
	if x := p.explained(102); !strings.HasPrefix(x.Effect, "opened session "+task.ID.String()+", ") {
		t.Errorf("explained as %+v", x)
	}
	p.K.Fork(100, 103, "lngtest-x")
	inner := p.becomes(103, 100, 1000, "lngtest-agent") // the first rule does not apply to members
	p.Until(func() bool { return p.K.Proc(103).Session.String() == s.ID })
	p.Until(func() bool { _, err := p.K.Session(inner); return err != nil })
}

// Where only the name matches, the session is dissolved, children included, without a signal.
func TestLookalike(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(agentRules))
	for _, tt := range []struct {
		pid, uid uint32
		why      string
	}{
		{300, 1001, "another uid"},
		{310, 1000, "another file"},
	} {
		p.Add(tt.pid, daemontest.Shell, tt.uid, "lngtest-sh")
		if tt.why == "another file" {
			p.Proc(tt.pid, daemontest.Shell, tt.uid, "lngtest-agent")
			p.Exe(tt.pid, "/tmp/lngtest-agent")
			p.K.Become(tt.pid, "lngtest-agent")
		} else {
			p.becomes(tt.pid, daemontest.Shell, tt.uid, "lngtest-agent")
		}
		p.K.Fork(tt.pid, tt.pid+1, "lngtest-child")
		p.Until(func() bool {
			all, err := p.K.Sessions()
			return err == nil && len(all) == 0
		})
		if pr := p.K.Proc(tt.pid + 1); pr.Session != 0 || pr.Dead {
			t.Errorf("%s: child %+v", tt.why, pr)
		}
		p.K.Exit(tt.pid, 0)
	}
	p.Unsignalled()
	p.Until(func() bool { // the kernel gets it first
		return len(daemontest.Get[api.Sessions](p, "root", "/v1/sessions?state=all").Items) == 0
	})
	p.Until(func() bool { return strings.Count(p.Audit(), "no rule matches") == 2 })
}

// With observe, a rule's session is shown, but its limits are not enforced.
func TestAgentsObserved(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(strings.Replace(agentRules, "enforce", "observe", 1)))
	p.Add(300, daemontest.Shell, 1000, "lngtest-sh")
	id := p.becomes(300, daemontest.Shell, 1000, "lngtest-agent")
	if info := p.held(id); info.MaxProcesses != 0 || info.Idle != 0 {
		t.Errorf("%+v", info)
	}
	p.K.Fork(300, 301, "lngtest-child")
	p.K.Exit(300, 0)
	p.K.AllRead()
	if pr := p.K.Proc(301); pr.Dead || len(p.K.Signals()) != 0 {
		t.Errorf("%+v, %v", pr, p.K.Signals())
	}
	// Its limits apply once the policy is enforced.
	p.Reload(agentRules)
	r := p.Receipt(id.String())
	if r.EndReason != "root_exit" || r.Killed+r.Left+len(r.Processes) == 0 || len(r.WouldEnd) != 1 || r.WouldEnd[0] != "root_exit" {
		t.Errorf("%+v", r)
	}
}

// What runs already when the daemon starts is found, with its children.
func TestAgentsRunning(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(agentRules))
	p.Halt()
	p.Add(300, daemontest.Shell, 1000, "lngtest-agent")
	p.Add(301, 300, 1000, "lngtest-child")
	p.Add(302, daemontest.Shell, 1001, "lngtest-agent")
	p.Add(303, daemontest.Shell, 1000, "lngtest-off")
	p.Start()
	p.Until(func() bool { return p.K.Proc(301).Session != 0 })
	info := p.held(p.K.Proc(300).Session)
	if info.Name != "lngtest" || info.UID != 1000 || info.Live != 2 || p.K.Proc(301).Session != info.ID {
		t.Errorf("%+v", info)
	}
	if p.K.Proc(302).Session != 0 || p.K.Proc(303).Session != 0 {
		t.Error("strangers were adopted")
	}
}

// A script that runs already is known by the path that its interpreter was given.
func TestAgentsRunningScripts(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\nagents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent-w}}\n"))
	p.Halt()
	for n, command := range []string{
		"vim /usr/bin/lngtest-agent-w",     // no interpreter
		"bash -c /usr/bin/lngtest-agent-w", // its text
		"node lngtest-agent-w",             // no path
		"node /usr/bin/other /usr/bin/lngtest-agent-w", "python3 -m /lngtest-agent-w",
		"node /usr/bin/lngtest-agent-with-a-long-name --flag", "python3.11 --x ./bin/lngtest-agent-w",
	} {
		pid, argv := uint32(300+n), strings.Fields(command)
		p.Add(pid, daemontest.Shell, 1000, "MainThread")
		p.Exe(pid, "/opt/bin/"+argv[0])
		p.File(pid, "cmdline", strings.Join(argv, "\x00")+"\x00")
	}
	p.Start()
	for _, pid := range []uint32{306, 305} { // the youngest comes last
		p.Until(func() bool { return p.K.Proc(pid).Session != 0 })
		if info := p.held(p.K.Proc(pid).Session); info.Name != "lngtest" {
			t.Errorf("%+v", info)
		}
		if x := p.explained(pid); x.Rule != "agents.lngtest" {
			t.Errorf("%d is explained as %+v", pid, x)
		}
	}
	for pid := uint32(300); pid < 305; pid++ {
		if p.K.Proc(pid).Session != 0 {
			t.Errorf("%d was adopted", pid)
		}
	}
}

func TestAdopt(t *testing.T) {
	w := newWorld(t)
	adopt := func(who string, pid int, req api.NewSession) daemontest.Reply {
		req.Root, req.Adopt = api.Ref{PID: pid}, true
		return w.Do(who, "POST", "/v1/sessions", req)
	}
	w.Add(300, daemontest.Shell, 1000, "lngtest-old")
	w.Add(301, 300, 1000, "lngtest-child")
	w.Add(302, 301, 1000, "lngtest-other")
	adopt("else", 300, api.NewSession{}).Refused(api.CodeDenied)
	adopt("away", 300, api.NewSession{}).Refused(api.CodePIDNamespace)
	adopt("user", 999, api.NewSession{}).Refused(api.CodeNotFound)
	adopt("root", daemontest.Self, api.NewSession{}).Refused(api.CodeGuarded)
	s := daemontest.Into[api.Session](adopt("user", 300, api.NewSession{Name: "found"}), http.StatusCreated)
	if s.Token != "" || s.Owner != nil || s.UID != 1000 {
		t.Errorf("%+v", s)
	}
	if s := daemontest.Get[api.Session](w, "user", "/v1/sessions/found"); s.Live != 3 {
		t.Errorf("%+v", s)
	}
	adopt("301", 301, api.NewSession{}).Refused(api.CodeDenied) // a member
	// A member's PID makes a nested session of it and of what it created.
	w.K.Fork(301, 303, "lngtest-grandchild")
	n := daemontest.Into[api.Session](adopt("root", 301, api.NewSession{}), http.StatusCreated)
	if n.Parent != s.ID {
		t.Errorf("%+v", n)
	}
	w.In(map[uint32]string{300: s.ID, 301: n.ID, 302: n.ID, 303: n.ID})
}

func TestKeep(t *testing.T) {
	w := newWorld(t)
	s := w.Session("user", 100, api.NewSession{Name: "work"})
	for _, f := range [][2]uint32{{100, 101}, {101, 102}, {102, 103}, {100, 104}} {
		w.Fork(f[0], f[1], 1000, "lngtest-member")
	}
	w.K.Exit(102, 0) // 103 is an orphan of the branch to keep
	ref := w.RefOf
	until := time.Now().Add(time.Hour)
	keep := func(who string, refs ...api.Ref) daemontest.Reply {
		return w.Do(who, "POST", "/v1/keep", api.KeepRequest{Refs: refs, Reason: "shared cache", Until: until})
	}
	keep("else", ref(101)).Refused(api.CodeDenied)
	keep("101", ref(101)).Refused(api.CodeDenied) // itself
	keep("104", ref(101)).Refused(api.CodeDenied) // another of its session
	keep("user", ref(100)).Refused(api.CodeGuarded)
	keep("user", api.Ref{PID: 101}).Refused(api.CodeBadRequest)
	keep("user").Refused(api.CodeBadRequest)
	keep("user", api.Ref{PID: 101, StartNS: 1}).Refused(api.CodeIdentity)
	keep("root", ref(daemontest.Shell)).Refused(api.CodeNotFound)
	w.Do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Reason: " ", Until: until}).Refused(api.CodeBadRequest)
	w.Do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Reason: "r", Until: time.Now()}).Refused(api.CodeBadRequest)

	w.Do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Name: "a b", Reason: "r", Until: until}).Refused(api.CodeBadRequest)
	w.Do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(101)}, Name: "work", Reason: "r", Until: until}).Refused(api.CodeBusyName)

	k := daemontest.Into[api.Session](keep("user", ref(101)), http.StatusCreated)
	if k.Name != "lngtest-member" || !k.Kept || k.Reason != "shared cache" || k.Until == nil || k.Parent != "" || k.UID != 1000 {
		t.Errorf("%+v", k)
	}
	for _, want := range []string{fmt.Sprintf(`"reason":"from session %s, until %s: shared cache"`, s.ID, until.UTC().Format(time.RFC3339)),
		fmt.Sprintf(`"target":{"session":"%s","pid":101,"start_ns":"%d"}`, k.ID, ref(101).StartNS)} {
		t.Logf("waits for %s", want)
		w.Until(func() bool { return strings.Contains(w.Audit(), want) }) // records are written a moment later
	}
	w.In(map[uint32]string{100: s.ID, 101: k.ID, 103: k.ID, 104: s.ID})
	keep("user", ref(101)).Refused(api.CodeBadRequest) // kept already
	w.Fork(100, 105, 1000, "lngtest-member")
	w.Fork(100, 106, 1000, "lngtest-member")
	if again := daemontest.Into[api.Session](keep("user", ref(105)), http.StatusCreated); again.Name != "lngtest-member-2" {
		t.Errorf("%+v", again)
	}
	named := w.Do("user", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{ref(106)}, Name: "cache", Reason: "r", Until: until})
	if d := daemontest.Into[api.Session](named, http.StatusCreated); d.Name != "cache" {
		t.Errorf("%+v", d)
	}
	if r := w.End("user", s.ID); r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
	w.Survive([]uint32{101, 103, 104}, 101, 103) // the kept ones
	w.Restart()                                  // the reason for keeping is remembered
	d := daemontest.Get[api.Session](w, "user", "/v1/sessions/lngtest-member")
	if d.ID != k.ID || !d.Kept || d.Reason != "shared cache" || d.Until == nil || d.KeptBy == nil || d.KeptBy.UID != 1000 {
		t.Errorf("%+v", d)
	}
}

// A rule keeps a member when it becomes the program, and what runs when it is read.
func TestKeepRule(t *testing.T) {
	const rule = "keep:\n  - {name: cache, match: {exe: /bin/lngtest-cache}, reason: shared, until: 2099-01-01}\n  - {name: old, match: {exe: /bin/lngtest-old}, reason: over, until: 2001-01-01}\n"
	p := newWorld(t, daemontest.WithPolicy(rule))
	s := p.Session("user", 100, api.NewSession{})
	for _, pid := range []uint32{101, 102} {
		p.K.Fork(100, pid, "lngtest-x")
	}
	p.Proc(101, 100, 1000, "lngtest-cache")
	p.K.Exec(101, "/bin/lngtest-cache", "lngtest-cache\x00")
	p.Proc(102, 100, 1000, "lngtest-old")
	p.K.Exec(102, "/bin/lngtest-old", "lngtest-old\x00")
	p.Until(func() bool { return p.K.Proc(101).Session.String() != s.ID })
	var k *api.Session
	p.Until(func() bool { // the kernel has it before the daemon has noted why
		k = daemontest.Get[api.Session](p, "root", "/v1/sessions/"+p.K.Proc(101).Session.String())
		return k.Kept
	})
	if k.Name != "lngtest-cache" || k.Reason != "shared" || k.Until == nil || k.Until.Before(time.Now()) {
		t.Errorf("%+v", k)
	}
	p.In(map[uint32]string{102: s.ID}) // its rule is void
	p.Reload("")
	p.K.Fork(100, 103, "lngtest-x")
	p.Proc(103, 100, 1000, "lngtest-cache")
	p.K.Exec(103, "/bin/lngtest-cache", "lngtest-cache\x00")
	p.K.AllRead()
	p.Reload(rule)
	p.Until(func() bool { return p.K.Proc(103).Session.String() != s.ID })
	p.Until(func() bool { return strings.Count(p.Audit(), "rule cache") == 2 })
}
