//go:build linux

package rules_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"golang.org/x/sys/unix"
)

func valueOf(p *api.Policy, key string) (any, string) {
	for _, v := range p.Items {
		if v.Key == key {
			return v.Value, v.Origin
		}
	}
	return nil, ""
}

func TestPolicyAbsent(t *testing.T) {
	w := newWorld(t)
	p := daemontest.Get[api.Policy](w, "user", "/v1/policy")
	if p.Mode != "observe" || p.File != "" || len(p.Items) < 20 || p.Kind != "policy" || p.Breaker.Open || p.Refused != "" {
		t.Errorf("policy %+v", p)
	}
	for _, v := range p.Items {
		if v.Origin != policy.BuiltIn {
			t.Errorf("%s comes from %s", v.Key, v.Origin)
		}
	}
	s := w.Session("user", 40, api.NewSession{})
	if s.GraceSeconds != 5 || s.Mode != "observe" {
		t.Errorf("session %+v", s)
	}
}

func TestPolicyValues(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\ndefaults:\n  grace: 90s\n  max_processes: 7\n  max_lifetime: 4h\nwait: {killed: 1m}\n"))
	doc := p.Policy()
	if grace, origin := valueOf(doc, "defaults.grace"); grace != "1m30s" || origin != p.Options.Policy+":4" || doc.File != p.Options.Policy || doc.Mode != "enforce" {
		t.Errorf("grace %v from %s, %+v", grace, origin, doc)
	}
	v := daemontest.Get[api.Version](p, "user", "/v1/version")
	if v.Mode != "enforce" || p.Status().Mode != "enforce" {
		t.Errorf("mode %s", v.Mode)
	}
	s := p.Session("user", 40, api.NewSession{})
	if s.GraceSeconds != 90 || s.Mode != "enforce" {
		t.Errorf("session %+v", s)
	}
	if info, err := p.K.Session(p.ID(s.ID)); err != nil || info.MaxProcesses != 7 || info.MaxLifetime != 4*time.Hour {
		t.Errorf("%+v, %v", info, err)
	}
	// Limits that the caller asked for take precedence.
	s = p.Session("user", 41, api.NewSession{GraceMS: daemontest.MS(0), MaxProcesses: 3, MaxLifetimeMS: 1000})
	if info, err := p.K.Session(p.ID(s.ID)); err != nil || info.MaxProcesses != 3 || info.MaxLifetime != time.Second || s.GraceSeconds != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// Limits of the policy alone are not carried out with observe.
func TestPolicyObserved(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("defaults: {max_processes: 7, max_lifetime: 4h, grace: 1s}\n"))
	s := p.Session("user", 40, api.NewSession{})
	if info, err := p.K.Session(p.ID(s.ID)); err != nil || info.MaxProcesses != 0 || info.MaxLifetime != 0 || info.Grace != time.Second {
		t.Errorf("%+v, %v", info, err)
	}
	s = p.Session("user", 41, api.NewSession{MaxProcesses: 3})
	if info, err := p.K.Session(p.ID(s.ID)); err != nil || info.MaxProcesses != 3 {
		t.Errorf("%+v, %v", info, err)
	}
}

// wait.killed is how long to wait for a stuck member.
func TestPolicyWait(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("wait: {killed: 2m}\n"))
	s := p.Session("user", 40, api.NewSession{GraceMS: daemontest.MS(0)})
	p.K.Edit(40, func(x *kerneltest.Proc) { x.Stubborn = true })
	p.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true})
	p.K.Advance(time.Minute)
	if r := p.Do("user", "GET", "/v1/sessions/"+s.ID+"/report", nil); r.Status != http.StatusAccepted {
		t.Errorf("a verdict after a minute: %s", r.Body)
	}
	// The wait begins when the enforcer first meets the condemned session,
	// which may be after any of these.
	var a daemontest.Reply
	p.Until(func() bool {
		p.K.Advance(time.Minute)
		a = p.Do("user", "GET", "/v1/sessions/"+s.ID+"/report", nil)
		return a.Status == http.StatusOK
	})
	if r := daemontest.Into[api.Report](a, http.StatusOK); r.Verdict != "left" {
		t.Errorf("verdict %s", r.Verdict)
	}
	p.K.Edit(40, func(x *kerneltest.Proc) { x.Stubborn = false })
}

func TestPolicyReload(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\ndefaults: {grace: 1s}\n"))
	doc := p.Reload("defaults: {grace: 2s}\ndaemon: {level: 2}\n")
	if grace, _ := valueOf(doc, "defaults.grace"); grace != "2s" || doc.Mode != "observe" || !slices.Equal(doc.NeedsRestart, []string{"daemon.level"}) {
		t.Errorf("%+v", doc)
	}
	// An invalid one changes nothing, and is reported until a valid one comes.
	p.WritePolicy("mode: enforce\ndefaults: {grase: 3s}\n")
	e := p.Do("root", "POST", "/v1/policy/reload", nil).Refused(api.CodeBadRequest)
	line := p.Options.Policy + `:3:12: unknown key "grase" in defaults; did you mean "grace"?`
	if e.Message != line {
		t.Errorf("%s\nwant %s", e.Message, line)
	}
	doc = p.Policy()
	if grace, _ := valueOf(doc, "defaults.grace"); grace != "2s" || doc.Mode != "observe" || doc.Refused != line {
		t.Errorf("%+v", doc)
	}
	if d := p.Status().Degraded; !slices.Contains(d, "policy not applied: "+line) {
		t.Errorf("degraded %q", d)
	}
	if s := p.Session("user", 40, api.NewSession{}); s.GraceSeconds != 2 {
		t.Errorf("grace %v", s.GraceSeconds)
	}
	// SIGHUP does the same.
	p.WritePolicy("defaults: {grace: 4s}\n")
	p.Hup <- unix.SIGHUP
	p.Until(func() bool { grace, _ := valueOf(p.Policy(), "defaults.grace"); return grace == "4s" })
	if d := p.Status().Degraded; len(d) != 0 {
		t.Errorf("degraded %q", d)
	}
	// A file that was named must exist.
	os.Remove(p.Options.Policy)
	p.Do("root", "POST", "/v1/policy/reload", nil).Refused(api.CodeBadRequest)
	if grace, _ := valueOf(p.Policy(), "defaults.grace"); grace != "4s" {
		t.Errorf("grace %v", grace)
	}
}

func TestPolicyExplain(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(strings.Join([]string{
		"protect:",
		"  - {name: a, match: {exe: /bin/lngtest-user, uid: 1000, argv: ^--flag$, cgroup: /lngtest}, reason: data}",
		"  - {name: b, match: {comm: lngtest-user, parent: {comm: lngtest-shell}}, reason: data}",
		"  - {name: c, match: {comm: lngtest-user, uid: 0}, reason: data}",
		"  - {name: d, match: {comm: lngtest-root}, reason: data}", "",
	}, "\n")))
	rules := func(ref string) (names []string, effect string) {
		d := daemontest.Get[api.PolicyExplain](p, "root", "/v1/policy/explain?ref="+ref)
		for _, r := range d.Items {
			names, effect = append(names, r.Rule), r.Effect
		}
		return names, effect
	}
	if names, effect := rules("22"); !slices.Equal(names, []string{"protect.a", "protect.b"}) || !strings.HasPrefix(effect, "protected: never adopted") {
		t.Errorf("%q: %s", names, effect)
	}
	p.Session("user", 40, api.NewSession{})
	if names, effect := rules("40"); !slices.Equal(names, []string{"protect.d"}) || !strings.HasPrefix(effect, "no effect: ") {
		t.Errorf("%q: %s", names, effect)
	}
	if names, _ := rules("23"); names != nil {
		t.Errorf("%q", names)
	}
}

// The breaker counts what the daemon ends automatically, and nothing else.
func TestPolicyBreaker(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\nbreaker: {ends_per_minute: 2}\n"))
	may := func(want, wantTripped bool) {
		t.Helper()
		if may, tripped := p.Service.Rules.MayEnd(1000); may != want || tripped != wantTripped {
			t.Fatalf("may end %t, tripped %t", may, tripped)
		}
	}
	for pid := range uint32(5) {
		s := p.Session("user", 40+pid, api.NewSession{GraceMS: daemontest.MS(0)})
		p.End("user", s.ID)
	}
	may(true, false)
	may(true, false)
	may(false, true)
	may(false, false)
	doc, status := p.Policy(), p.Status()
	if doc.Mode != "enforce" || !doc.Breaker.Open || !slices.Equal(doc.Breaker.UIDs, []int{1000}) ||
		!status.Breaker.Open || !slices.Equal(status.Breaker.UIDs, []int{1000}) || len(status.Degraded) != 1 {
		t.Errorf("%+v\n%+v", doc, status)
	}
	if s := p.Session("else", 49, api.NewSession{}); s.Mode != "enforce" {
		t.Errorf("mode %s for another user", s.Mode)
	}
	if mode, _ := valueOf(doc, "mode"); mode != "enforce" {
		t.Errorf("the file says %v", mode)
	}
	// A reload does not close it, nor does time.
	p.K.Advance(time.Hour)
	p.Do("root", "POST", "/v1/policy/reload", nil)
	may(false, false)
	if s := p.Session("user", 50, api.NewSession{}); s.Mode != "observe" {
		t.Errorf("mode %s", s.Mode)
	}
	// Ends that a caller asks for continue.
	s := p.Session("user", 51, api.NewSession{GraceMS: daemontest.MS(0)})
	if r := p.End("user", s.ID); r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
	if doc := daemontest.Into[api.Policy](p.Do("root", "POST", "/v1/policy/resume", nil), http.StatusOK); doc.Mode != "enforce" || doc.Breaker.Open {
		t.Errorf("%+v", doc)
	}
	may(true, false)
	// A reload changes the limit.
	p.Reload("mode: enforce\nbreaker: {ends_per_minute: 1}\n")
	may(false, true)
	p.Do("root", "POST", "/v1/policy/resume", nil)
	// With observe nothing is ended, and so nothing counted.
	p.Reload("breaker: {ends_per_minute: 2}\n")
	for range 10 {
		may(false, false)
	}
	if p.Status().Breaker.Open {
		t.Error("it opened without an end")
	}
}
