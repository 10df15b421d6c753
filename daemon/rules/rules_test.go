//go:build linux

package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// host is a steward with a kernel and a procfs that a test scripts.
type host struct {
	*Steward
	t    *testing.T
	k    *kerneltest.Kernel
	file string
}

func newHost(t *testing.T, policy string) *host {
	t.Helper()
	f := registrytest.New(t)
	h := &host{t: t, k: f.K, file: filepath.Join(t.TempDir(), "policy.yaml")}
	h.write(policy)
	p, err := Load(h.file, true, f.Clock)
	require.NoError(t, err)
	h.Steward = New(Options{
		Ground: f.Ground(),
		Rules:  p, Enforcer: f.Enforcer, Audit: func(access.AuditRecord) {},
	})
	f.Run()
	return h
}

func (h *host) write(policy string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(h.file, []byte("version: 1\n"+policy), 0o600))
}

// runs makes procfs show a process of the kernel as a program of /bin.
func (h *host) runs(pid, parent uint32, comm string) tracer.Identity {
	h.t.Helper()
	p := h.k.Proc(pid)
	procfstest.Files(h.t, h.o.Proc.Path(pid, ""), map[string]string{
		"stat":    fmt.Sprintf("%d (%s) S %d%s", pid, comm, parent, strings.Repeat(" 0", 48)),
		"status":  fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n", comm, p.UID, p.UID, p.UID, p.UID),
		"cmdline": comm + "\x00",
	})
	require.NoError(h.t, os.Symlink("/bin/"+comm, h.o.Proc.Path(pid, "exe")))
	return p.Identity
}

func (h *host) open(pid uint32, spec tracer.SessionSpec) {
	h.t.Helper()
	spec.Root, spec.UID = h.k.Proc(pid).Identity, 1000
	var refused error
	if err := h.o.Registry.Update(func(tx registry.Tx) { _, refused = tx.Create(spec) }); err != nil || refused != nil {
		h.t.Fatal(err, refused)
	}
}

// TestHeld: a session has the limits of its rule, else of the defaults; with observe, and in containers, none.
func TestHeld(t *testing.T) {
	const text = "defaults: {limits: {io_weight: 50, leave: return}}\nagents: [{name: a, match: {comm: a}, limits: {cpus: 1}}]\n"
	enforced, observed := newHost(t, "mode: enforce\n"+text).o.Rules, newHost(t, text).o.Rules
	for rule, want := range map[uint32]string{
		0: "I/O weight 50 true", policy.AgentRule: "at most 1 CPUs false", policy.ContainerRule: " false",
	} {
		s := tracer.SessionInfo{Rule: rule, Name: "a"}
		require.Equal(t, fmt.Sprint(enforced.HeldText(s), " ", enforced.Returns(s)), want)
		require.Equal(t, fmt.Sprint(observed.HeldText(s), " ", observed.Returns(s)), " false")
	}
	h, set := newHost(t, text), make(chan bool)
	h.o.Limit = func(_ tracer.SessionID, _ tracer.Identity, l *api.Limits) error { set <- l.Any(); return nil }
	h.limit(tracer.SessionInfo{Rule: policy.AgentRule, Name: "a"}) // the policy was enforced before
	require.Equal(t, <-set, false)
}

// Whatever process has the PID now does not decide about the one that had it.
func TestFactsOfAnother(t *testing.T) {
	h := newHost(t, "")
	h.k.Add(100, 1, "lngtest-now")
	now := h.runs(100, 1, "lngtest-now")
	if f := h.RootFacts(now); f == nil || f.Comm != "lngtest-now" || f.Exe != "/bin/lngtest-now" {
		t.Errorf("of the process itself: %+v", f)
	}
	if f := h.RootFacts(tracer.Identity{PID: 100, Start: now.Start - 1}); f != nil {
		t.Errorf("of the one before: %+v", f)
	}
}

// The kernel compares files at most once for all rules, and only if a path matches.
func TestFactsAskOnce(t *testing.T) {
	h := newHost(t, "keep: [{name: x, reason: x, until: 2099-01-01, match: {exe: /bin/lngtest-x}}]\n"+
		"brokers: {shared: [{name: x, match: {exe: '/bin/lngtest-*', argv: nothing}}]}\n")
	h.k.Add(100, 1, "lngtest-x")
	f := h.RootFacts(h.runs(100, 1, "lngtest-x"))
	p := h.o.Rules.Policy()
	if p.SharedServer(f) != nil || p.Keeps(f, time.Now()) == nil {
		t.Error("it runs the file")
	}
	h.k.Edit(100, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
	if p.Keeps(f, time.Now()) == nil {
		t.Error("it was asked again")
	}
	if f = h.RootFacts(h.k.Proc(100).Identity); p.Keeps(f, time.Now()) != nil {
		t.Error("it does not run the file")
	}
	h.k.Edit(100, func(p *kerneltest.Proc) { p.Runs = nil })
	h.k.Fail("Runs", os.ErrDeadlineExceeded)
	if f = h.RootFacts(h.k.Proc(100).Identity); p.Keeps(f, time.Now()) != nil {
		t.Error("the kernel did not say so")
	}
}

// If procfs does not show the file, the event of the exec names it, and the kernel compares it as
// long as the process lives.
func TestFactsByTheEvent(t *testing.T) {
	h := newHost(t, "keep: [{name: x, reason: x, until: 2099-01-01, match: {exe: /bin/lngtest-x}}]\n")
	h.k.Add(100, 1, "lngtest-root")
	h.open(100, tracer.SessionSpec{})
	h.k.Add(101, 100, "lngtest-x")
	id := h.k.Proc(101).Identity
	err := h.o.Registry.Update(func(tx registry.Tx) {
		tx.Apply([]tracer.Event{
			{Type: tracer.EventBirth, Process: id, Creator: h.k.Proc(100).Identity},
			{Type: tracer.EventExec, Process: id, Filename: []byte("/bin/lngtest-x"), Argv: []byte("lngtest-x\x00")},
		})
	})
	require.NoError(t, err)
	keeps := func() bool { return h.o.Rules.Policy().Keeps(h.RootFacts(id), time.Now()) != nil }
	if !keeps() {
		t.Error("it runs the file")
	}
	h.k.Edit(101, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
	if keeps() {
		t.Error("it does not run the file")
	}
	h.k.Edit(101, func(p *kerneltest.Proc) { p.Runs = nil })
	h.k.Exit(101, 0)
	if f := h.RootFacts(id); f == nil || f.Exe != "/bin/lngtest-x" || f.Unproven() == "" || keeps() {
		t.Errorf("it has exited: %+v", f)
	}
}

// A child that matches the same rule as the running agent that started it is found in the session
// of that one.
func TestFindRunningFamily(t *testing.T) {
	h := newHost(t, "agents: [{name: lngtest, enabled: true, match: {comm: lngtest-agent, exe: /bin/lngtest-agent}}]\n")
	for _, p := range []struct{ pid, parent uint32 }{{300, 1}, {301, 300}, {302, 1}, {303, 1}} {
		h.k.Add(p.pid, p.parent, "lngtest-agent")
		h.runs(p.pid, p.parent, "lngtest-agent")
	}
	h.k.Edit(303, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
	h.FindRunning()
	in := func(pid uint32) tracer.SessionID { return h.k.Proc(pid).Session }
	if all, err := h.k.Sessions(); err != nil || len(all) != 2 || in(300) == 0 || in(301) != in(300) || in(302) == 0 || in(302) == in(300) {
		t.Errorf("%d sessions: agent %v, its child %v, another agent %v", len(all), in(300), in(301), in(302))
	}
	if in(303) != 0 {
		t.Error("a process that does not run the file was adopted")
	}
}

// The looks that a limit needs are asked for, also on a host where nothing happens.
func TestWalking(t *testing.T) {
	for _, test := range []struct {
		policy string
		spec   tracer.SessionSpec
		want   registry.Want
	}{
		{"", tracer.SessionSpec{MaxProcesses: 5, MaxLifetime: time.Hour}, registry.WantNone}, // the kernel's own
		{"", tracer.SessionSpec{Idle: time.Hour}, registry.WantEach},
		{"", tracer.SessionSpec{MaxRSS: 1 << 30}, registry.WantEach},
		{"defaults: {idle: 1h}\n", tracer.SessionSpec{}, registry.WantEach},
		{"defaults: {max_rss: 1GiB}\n", tracer.SessionSpec{}, registry.WantEach},
	} {
		h := newHost(t, test.policy)
		wants := func() (want registry.Want) {
			require.NoError(t, h.o.Registry.Read(func(v registry.View) { want = h.walking(v) }))
			return want
		}
		if want := wants(); want != registry.WantNone {
			t.Errorf("%q: %v without a session", test.policy, want)
		}
		h.k.Add(100, 1, "lngtest-root")
		h.open(100, test.spec)
		if want := wants(); want != test.want {
			t.Errorf("%q, %+v: %v, want %v", test.policy, test.spec, want, test.want)
		}
	}
}

// TestWorkForTheEnded: a command whose client was interrupted may begin when the session that asked for it is over, and the
// kernel has forgotten that.
func TestWorkForTheEnded(t *testing.T) {
	h := newHost(t, "mode: enforce\n")
	h.k.SetJoins(true, false)
	h.k.Add(100, 1, "lngtest-asks")
	h.open(100, tracer.SessionSpec{Grace: 3 * time.Second})
	asker := h.k.Proc(100).Session
	h.k.Exit(100, 9)
	_, err := h.k.Settle(asker)
	require.NoError(t, err)
	require.NoError(t, h.k.Release(asker))
	h.k.Add(200, 1, "runc")
	id := h.k.PutIn(200, "sleep")
	info, err := h.k.Session(id)
	require.NoError(t, err)
	joined{h.Steward, info}.workFor(h.o.Rules.Policy(), asker, &lineage.Container{ID: "x"})
	if info, err := h.k.Session(id); err != nil || info.For != asker || info.Grace != 3*time.Second {
		t.Errorf("%+v, %v", info, err)
	}
}
