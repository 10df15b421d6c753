//go:build linux

package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// policed is a world whose daemon has a policy file.
type policed struct {
	*world
	file string
	hup  chan os.Signal
}

func newPoliced(t *testing.T, text string) *policed {
	t.Helper()
	p := &policed{world: newWorld(t), hup: make(chan os.Signal)}
	p.file = filepath.Join(p.dir, "policy.yaml")
	p.write(text)
	p.restart()
	return p
}

func (p *policed) write(text string) {
	p.Helper()
	if err := os.WriteFile(p.file, []byte("version: 1\n"+text), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *policed) restart() {
	p.Helper()
	if err := p.stop(); err != nil {
		p.Fatal(err)
	}
	p.h.hup = p.hup
	p.start(Options{Version: "9.9.9", Policy: p.file})
}

func (p *policed) policy() *api.Policy {
	p.Helper()
	return into[api.Policy](p.do("root", "GET", "/v1/policy", nil), http.StatusOK)
}

func (p *policed) status() *api.Status {
	p.Helper()
	return into[api.Status](p.do("root", "GET", "/v1/status", nil), http.StatusOK)
}

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
	p := into[api.Policy](w.do("user", "GET", "/v1/policy", nil), http.StatusOK)
	if p.Mode != "observe" || p.File != "" || len(p.Items) < 20 || p.Kind != "policy" || p.Breaker.Open || p.Refused != "" {
		t.Errorf("policy %+v", p)
	}
	for _, v := range p.Items {
		if v.Origin != policy.BuiltIn {
			t.Errorf("%s comes from %s", v.Key, v.Origin)
		}
	}
	s := w.session("user", 40, api.NewSession{})
	if s.GraceSeconds != 5 || s.Mode != "observe" {
		t.Errorf("session %+v", s)
	}
}

func TestPolicyValues(t *testing.T) {
	p := newPoliced(t, "mode: enforce\ndefaults:\n  grace: 90s\n  max_processes: 7\n  max_lifetime: 4h\nwait: {killed: 1m}\n")
	doc := p.policy()
	if grace, origin := valueOf(doc, "defaults.grace"); grace != "1m30s" || origin != p.file+":4" || doc.File != p.file || doc.Mode != "enforce" {
		t.Errorf("grace %v from %s, %+v", grace, origin, doc)
	}
	v := into[api.Version](p.do("user", "GET", "/v1/version", nil), http.StatusOK)
	if v.Mode != "enforce" || p.status().Mode != "enforce" {
		t.Errorf("mode %s", v.Mode)
	}
	s := p.session("user", 40, api.NewSession{})
	if s.GraceSeconds != 90 || s.Mode != "enforce" {
		t.Errorf("session %+v", s)
	}
	if info, err := p.k.Session(p.id(s.ID)); err != nil || info.MaxProcesses != 7 || info.MaxLifetime != 4*time.Hour {
		t.Errorf("%+v, %v", info, err)
	}
	// Limits that the caller asked for take precedence.
	s = p.session("user", 41, api.NewSession{GraceMS: ms(0), MaxProcesses: 3, MaxLifetimeMS: 1000})
	if info, err := p.k.Session(p.id(s.ID)); err != nil || info.MaxProcesses != 3 || info.MaxLifetime != time.Second || s.GraceSeconds != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// Limits of the policy alone are not carried out with observe.
func TestPolicyObserved(t *testing.T) {
	p := newPoliced(t, "defaults: {max_processes: 7, max_lifetime: 4h, grace: 1s}\n")
	s := p.session("user", 40, api.NewSession{})
	if info, err := p.k.Session(p.id(s.ID)); err != nil || info.MaxProcesses != 0 || info.MaxLifetime != 0 || info.Grace != time.Second {
		t.Errorf("%+v, %v", info, err)
	}
	s = p.session("user", 41, api.NewSession{MaxProcesses: 3})
	if info, err := p.k.Session(p.id(s.ID)); err != nil || info.MaxProcesses != 3 {
		t.Errorf("%+v, %v", info, err)
	}
}

// wait.killed is how long to wait for a stuck member.
func TestPolicyWait(t *testing.T) {
	p := newPoliced(t, "wait: {killed: 2m}\n")
	s := p.session("user", 40, api.NewSession{GraceMS: ms(0)})
	p.k.Edit(40, func(x *kerneltest.Proc) { x.Stubborn = true })
	p.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true})
	p.k.Advance(time.Minute)
	if r := p.do("user", "GET", "/v1/sessions/"+s.ID+"/report", nil); r.status != http.StatusAccepted {
		t.Errorf("a verdict after a minute: %s", r.body)
	}
	// The wait begins when the enforcer first meets the condemned session,
	// which may be after any of these.
	var a answered
	p.until(func() bool {
		p.k.Advance(time.Minute)
		a = p.do("user", "GET", "/v1/sessions/"+s.ID+"/report", nil)
		return a.status == http.StatusOK
	})
	if r := into[api.Report](a, http.StatusOK); r.Verdict != "left" {
		t.Errorf("verdict %s", r.Verdict)
	}
	p.k.Edit(40, func(x *kerneltest.Proc) { x.Stubborn = false })
}

func TestPolicyReload(t *testing.T) {
	p := newPoliced(t, "mode: enforce\ndefaults: {grace: 1s}\n")
	p.write("defaults: {grace: 2s}\ndaemon: {level: 2}\n")
	doc := into[api.Policy](p.do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	if grace, _ := valueOf(doc, "defaults.grace"); grace != "2s" || doc.Mode != "observe" || !slices.Equal(doc.NeedsRestart, []string{"daemon.level"}) {
		t.Errorf("%+v", doc)
	}
	// An invalid one changes nothing, and is reported until a valid one comes.
	p.write("mode: enforce\ndefaults: {grase: 3s}\n")
	e := p.do("root", "POST", "/v1/policy/reload", nil).refused(api.CodeBadRequest)
	line := p.file + `:3:12: unknown key "grase" in defaults; did you mean "grace"?`
	if e.Message != line {
		t.Errorf("%s\nwant %s", e.Message, line)
	}
	doc = p.policy()
	if grace, _ := valueOf(doc, "defaults.grace"); grace != "2s" || doc.Mode != "observe" || doc.Refused != line {
		t.Errorf("%+v", doc)
	}
	if d := p.status().Degraded; !slices.Contains(d, "policy not applied: "+line) {
		t.Errorf("degraded %q", d)
	}
	if s := p.session("user", 40, api.NewSession{}); s.GraceSeconds != 2 {
		t.Errorf("grace %v", s.GraceSeconds)
	}
	// SIGHUP does the same.
	p.write("defaults: {grace: 4s}\n")
	p.hup <- unix.SIGHUP
	p.until(func() bool { grace, _ := valueOf(p.policy(), "defaults.grace"); return grace == "4s" })
	if d := p.status().Degraded; len(d) != 0 {
		t.Errorf("degraded %q", d)
	}
	// A file that was named must exist.
	os.Remove(p.file)
	p.do("root", "POST", "/v1/policy/reload", nil).refused(api.CodeBadRequest)
	if grace, _ := valueOf(p.policy(), "defaults.grace"); grace != "4s" {
		t.Errorf("grace %v", grace)
	}
}

// A daemon does not start with an invalid policy.
func TestPolicyRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	i, err := instance.Of(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	good := func() { os.Remove(file); os.WriteFile(file, []byte("version: 1\n"), 0o644) }
	for what, tt := range map[string]struct {
		make func()
		want string
	}{
		"absent":    {func() { os.Remove(file) }, "no such file"},
		"mistake":   {func() { good(); os.WriteFile(file, []byte("version: 1\nmode: yes\n"), 0o644) }, file + ":2:7: "},
		"stranger":  {func() { good(); os.Chown(file, 1000, 0) }, "it belongs to uid 1000"},
		"group":     {func() { good(); os.Chmod(file, 0o664) }, "users other than root may write to it"},
		"others":    {func() { good(); os.Chmod(file, 0o646) }, "users other than root may write to it"},
		"directory": {func() { os.Remove(file); os.Mkdir(file, 0o755) }, "not a regular file"},
		"fifo":      {func() { os.Remove(file); unix.Mkfifo(file, 0o600) }, "not a regular file"},
	} {
		if what == "stranger" && os.Geteuid() != 0 {
			t.Log("skipped: only root can give a file away")
			continue
		}
		tt.make()
		opened := false
		h := host{open: func(tracer.Options) (kernel, error) { opened = true; return nil, errors.New("opened") }}
		err := h.serve(context.Background(), Options{Socket: i.Socket, Policy: file}, nil, zerolog.Nop())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || opened {
			t.Errorf("%s: %v, opened %t", what, err, opened)
		}
	}
	good()
	r, err := loadRules(i, Options{Policy: file}, registry.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{}
	if o.begin(r.Started()); o.Level != 0 {
		t.Errorf("level %d", o.Level)
	}
	os.WriteFile(file, []byte("version: 1\ndaemon: {level: 2, log_level: warn}\n"), 0o644)
	if r, err = loadRules(i, Options{Policy: file}, registry.Clock{}); err != nil {
		t.Fatal(err)
	}
	if o.begin(r.Started()); o.Level != 2 || r.LogLevel() != zerolog.WarnLevel {
		t.Errorf("level %d, log level %v", o.Level, r.LogLevel())
	}
	o.Level = 3 // the command line takes precedence
	if o.begin(r.Started()); o.Level != 3 {
		t.Errorf("level %d", o.Level)
	}
}

// Instances other than the host's have no default file.
func TestPolicyOfInstance(t *testing.T) {
	for socket, want := range map[string]string{api.DefaultSocket: policy.DefaultFile, "/tmp/lngtest/s": ""} {
		i, err := instance.Of(socket)
		if err != nil {
			t.Fatal(err)
		}
		if path, must := policyFile(i, Options{}); path != want || must {
			t.Errorf("%s: %q, %t", socket, path, must)
		}
		if path, must := policyFile(i, Options{Policy: "/x"}); path != "/x" || !must {
			t.Errorf("%s: %q, %t", socket, path, must)
		}
	}
}

func TestPolicyAccess(t *testing.T) {
	p := newPoliced(t, "")
	s := p.session("user", 40, api.NewSession{})
	for who, want := range map[string]bool{"root": true, "user": true, "reader": true, "else": true, "40": false} {
		for _, path := range []string{"/v1/policy", "/v1/policy/explain?ref=" + who} {
			if who != "40" && strings.Contains(path, "explain") {
				path = "/v1/policy/explain?ref=" + map[string]string{"root": "21", "user": "22", "reader": "24", "else": "23"}[who]
			}
			a := p.do(who, "GET", path, nil)
			if want && a.status != http.StatusOK {
				t.Errorf("%s %s: %s", who, path, a.body)
			} else if !want {
				a.refused(api.CodeDenied)
			}
		}
		for _, path := range []string{"/v1/policy/reload", "/v1/policy/resume"} {
			a := p.do(who, "POST", path, nil)
			if who == "root" && a.status != http.StatusOK {
				t.Errorf("%s %s: %s", who, path, a.body)
			} else if who != "root" {
				a.refused(api.CodeDenied)
			}
		}
	}
	// A member that is root is still a member.
	p.k.Edit(40, func(x *kerneltest.Proc) { x.UID = 0 })
	p.do("40", "POST", "/v1/policy/reload", nil).refused(api.CodeDenied)
	p.do("40", "POST", "/v1/policy/resume", nil).refused(api.CodeDenied)
	p.do("40", "GET", "/v1/policy", nil).refused(api.CodeDenied)
	p.do("user", "GET", "/v1/policy/explain?ref=21", nil).refused(api.CodeDenied)
	p.do("root", "GET", "/v1/policy?x=1", nil).refused(api.CodeBadRequest)
	p.do("root", "GET", "/v1/policy/explain", nil).refused(api.CodeBadRequest)
	p.do("root", "GET", "/v1/policy/explain?ref=4000", nil).refused(api.CodeNotFound)
	p.do("root", "POST", "/v1/policy/reload", `{"x":1}`).refused(api.CodeBadRequest)
	_ = s
}

func TestPolicyExplain(t *testing.T) {
	p := newPoliced(t, strings.Join([]string{
		"protect:",
		"  - {name: a, match: {exe: /bin/lngtest-user, uid: 1000, argv: ^--flag$, cgroup: /lngtest}, reason: data}",
		"  - {name: b, match: {comm: lngtest-user, parent: {comm: lngtest-shell}}, reason: data}",
		"  - {name: c, match: {comm: lngtest-user, uid: 0}, reason: data}",
		"  - {name: d, match: {comm: lngtest-root}, reason: data}",
		"",
	}, "\n"))
	rules := func(ref string) (names []string, effect string) {
		d := into[api.PolicyExplain](p.do("root", "GET", "/v1/policy/explain?ref="+ref, nil), http.StatusOK)
		for _, r := range d.Items {
			names, effect = append(names, r.Rule), r.Effect
		}
		return names, effect
	}
	if names, effect := rules("22"); !slices.Equal(names, []string{"protect.a", "protect.b"}) || !strings.HasPrefix(effect, "protected: never adopted") {
		t.Errorf("%q: %s", names, effect)
	}
	p.session("user", 40, api.NewSession{})
	if names, effect := rules("40"); !slices.Equal(names, []string{"protect.d"}) || !strings.HasPrefix(effect, "no effect: ") {
		t.Errorf("%q: %s", names, effect)
	}
	if names, _ := rules("23"); names != nil {
		t.Errorf("%q", names)
	}
}

// The breaker counts what the daemon ends automatically, and nothing else.
func TestPolicyBreaker(t *testing.T) {
	p := newPoliced(t, "mode: enforce\nbreaker: {ends_per_minute: 2}\n")
	may := func(want, wantTripped bool) {
		t.Helper()
		if may, tripped := p.s.rules.MayEnd(1000); may != want || tripped != wantTripped {
			t.Fatalf("may end %t, tripped %t", may, tripped)
		}
	}
	for pid := range uint32(5) {
		s := p.session("user", 40+pid, api.NewSession{GraceMS: ms(0)})
		p.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true})
		p.receipt(s.ID)
	}
	may(true, false)
	may(true, false)
	may(false, true)
	may(false, false)
	doc, status := p.policy(), p.status()
	if doc.Mode != "enforce" || !doc.Breaker.Open || doc.Breaker.Since == nil || !slices.Equal(doc.Breaker.UIDs, []int{1000}) ||
		!status.Breaker.Open || !slices.Equal(status.Breaker.UIDs, []int{1000}) || len(status.Degraded) != 1 {
		t.Errorf("%+v\n%+v", doc, status)
	}
	if s := p.session("else", 49, api.NewSession{}); s.Mode != "enforce" {
		t.Errorf("mode %s for another user", s.Mode)
	}
	if mode, _ := valueOf(doc, "mode"); mode != "enforce" {
		t.Errorf("the file says %v", mode)
	}
	// A reload does not close it, nor does time.
	p.k.Advance(time.Hour)
	p.do("root", "POST", "/v1/policy/reload", nil)
	may(false, false)
	if s := p.session("user", 50, api.NewSession{}); s.Mode != "observe" {
		t.Errorf("mode %s", s.Mode)
	}
	// Ends that a caller asks for continue.
	s := p.session("user", 51, api.NewSession{GraceMS: ms(0)})
	p.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true})
	if r := p.receipt(s.ID); r.Verdict != "clean" {
		t.Errorf("verdict %s", r.Verdict)
	}
	if doc := into[api.Policy](p.do("root", "POST", "/v1/policy/resume", nil), http.StatusOK); doc.Mode != "enforce" || doc.Breaker.Open {
		t.Errorf("%+v", doc)
	}
	may(true, false)
	// A reload changes the limit.
	p.write("mode: enforce\nbreaker: {ends_per_minute: 1}\n")
	p.do("root", "POST", "/v1/policy/reload", nil)
	may(false, true)
	p.do("root", "POST", "/v1/policy/resume", nil)
	// With observe nothing is ended, and so nothing counted.
	p.write("breaker: {ends_per_minute: 2}\n")
	p.do("root", "POST", "/v1/policy/reload", nil)
	for range 10 {
		may(false, false)
	}
	if p.status().Breaker.Open {
		t.Error("it opened without an end")
	}
}
