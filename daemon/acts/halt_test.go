//go:build linux

package acts_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

const rules = `mode: observe
agents:
  - {name: exact, enabled: true, match: {comm: lngtest-exact}}
  - {name: guarded, enabled: true, match: {comm: lngtest-guarded}}
  - {name: argued, enabled: true, match: {comm: lngtest-argued, uid: [1000]}}
protect:
  - {name: guarded, match: {comm: lngtest-guarded}, reason: test}
`

// becomes has an outsider exec under a comm, which no look sees before the exec.
func becomes(d *daemontest.Daemon, pid uint32, comm string) tracer.SessionID {
	d.Helper()
	d.Add(pid, daemontest.Shell, 1000, "lngtest-shell")
	return d.K.Become(pid, comm)
}

func set(d *daemontest.Daemon, req api.HaltRequest) *api.Halted {
	d.Helper()
	return daemontest.Into[api.Halted](d.Do("root", "POST", "/v1/halt", req), http.StatusOK)
}

// TestRefused: a request that is wrong, or refused by the kernel changes and ends
// nothing, and says so.
func TestRefused(t *testing.T) {
	d := daemontest.New(t)
	s := d.Session("user", 100, api.NewSession{Name: "lngtest"})
	long := strings.Repeat("r", api.MaxHaltReason+1)
	for _, bad := range []api.HaltRequest{
		{}, {Mode: "stop", Reason: "r"}, {Mode: api.ModeHalt, All: true}, {Mode: api.ModeHalt, Reason: " ", All: true}, {Mode: api.ModeHalt, Reason: "a\nb", All: true},
		{Mode: api.ModeHalt, Reason: long, All: true}, {Mode: api.ModeDrain, Reason: "r", Sessions: []string{s.ID}}, {Mode: api.ModeOff, Reason: "r"},
		{Mode: api.ModeHalt, Reason: "r"}, {Mode: api.ModeHalt, Reason: "r", Sessions: []string{s.ID}, All: true}, {Mode: api.ModeDrain, Reason: "r", All: true}, // no zero value means all
	} {
		d.Do("root", "POST", "/v1/halt", bad).Refused(api.CodeBadRequest)
	}
	d.Do("root", "POST", "/v1/halt", api.HaltRequest{Mode: api.ModeHalt, Reason: "r", Sessions: []string{s.ID, "nosuch"}}).Refused(api.CodeNotFound)
	d.K.Fail("SetHalt", errors.New("scripted"))
	for _, mode := range []string{api.ModeHalt, api.ModeDrain} {
		d.Do("root", "POST", "/v1/halt", api.HaltRequest{Mode: mode, Reason: "r", All: mode == api.ModeHalt}).Refused(api.CodeInternal)
	}
	require.Equal(t, d.K.Halted(), (tracer.Halt{}))
	d.Unsignalled()
}

// TestSelects: a halt ends the sessions that it selects, and no other, also if one of them is over since.
func TestSelects(t *testing.T) {
	d := daemontest.New(t)
	web := d.Session("user", 100, api.NewSession{Name: "web"})
	d.Session("user", 110, api.NewSession{Name: "other"})
	d.Add(300, 1, 0, "lngtest-outsider")
	over := d.Session("user", 120, api.NewSession{Name: "over"})
	d.K.Exit(120, 0)
	d.Receipt(over.ID)
	h := set(d, api.HaltRequest{Mode: api.ModeHalt, Reason: "r", Sessions: []string{over.ID, "w?b"}})
	if len(h.Items) != 1 || h.Items[0] != (api.HaltedSession{ID: web.ID, Name: "web"}) || h.Halt == nil || h.Halt.Mode != api.ModeHalt {
		t.Errorf("%+v", h)
	}
	r := d.Receipt(web.ID)
	if r.EndReason != "halt" || r.EndedBy == nil || r.EndedBy.Reason != "r" || r.Verdict != api.VerdictClean {
		t.Errorf("%+v", r)
	}
	d.Survive([]uint32{100, 110, 300}, 110, 300)
}

// TestOpenedMeanwhile: a halt ends sessions that were being opened when it came into force, and not what no user sees. If it
// cannot, it says so.
func TestOpenedMeanwhile(t *testing.T) {
	for _, fails := range []error{nil, errors.New("scripted")} {
		join := func() {}
		d := daemontest.New(t, func(w *daemontest.Daemon) {
			w.Host.Open = func(tracer.Options) (daemon.Kernel, error) { return &joining{w.K, &join}, nil }
		})
		join = sync.OnceFunc(func() {
			for pid, name := range map[uint32]string{300: "late", 301: registry.HiddenName} {
				d.Add(pid, daemontest.Shell, 1000, "lngtest-late")
				if _, err := d.K.Create(tracer.SessionSpec{Root: d.K.Proc(pid).Identity, Name: name}); err != nil {
					t.Error(err)
				}
			}
			d.K.Fail("SetHalt", fails)
		})
		all := api.HaltRequest{Mode: api.ModeHalt, Reason: "r", All: true}
		if fails != nil {
			d.Do("root", "POST", "/v1/halt", all).Refused(api.CodeInternal)
			continue
		}
		require.Equal(t, len(set(d, all).Items), 1)
		d.Survive([]uint32{300, 301}, 301)
	}
}

// TestAgents: the daemon ends an agent that its name alone does not make one, and an exact one whose exec the kernel side
// missed, once it has recognised them; and none that is older than the halt, or no agent.
func TestAgents(t *testing.T) {
	d := daemontest.New(t, daemontest.WithPolicy(rules))
	for _, a := range d.K.Settings().Agents {
		if a.Exact != (a.Comm == "lngtest-exact") {
			t.Errorf("%+v", a)
		}
	}
	older := becomes(d, 300, "lngtest-argued")
	d.K.Advance(1)
	set(d, api.HaltRequest{Mode: api.ModeDrain, Reason: "r"})
	argued, guarded := becomes(d, 310, "lngtest-argued"), becomes(d, 311, "lngtest-guarded")
	if becomes(d, 312, "lngtest-exact") != 0 || !d.Dead(312) {
		t.Error("an exact agent started")
	}
	d.Add(313, daemontest.Shell, 1000, "lngtest-shell")
	d.K.BecomeUnseen(313, "lngtest-exact")
	d.Resync(registry.CauseNone)
	for _, id := range []tracer.SessionID{argued, guarded} {
		if r := d.Receipt(id.String()); r.EndReason != "halt" || r.EndedBy == nil || r.EndedBy.Reason != "r" {
			t.Errorf("%+v", r)
		}
	}
	d.Until(func() bool { return d.Dead(313) })
	d.Add(314, daemontest.Shell, 0, "lngtest-argued") // another uid than the rule's
	d.K.Become(314, "lngtest-argued")
	d.Until(func() bool { return d.K.Proc(314).Session == 0 })
	d.Survive([]uint32{300, 310, 311, 312, 313, 314}, 300, 314)
	if s, err := d.K.Session(older); err != nil || s.State != tracer.StateActive {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestRefuses: while a halt is in force no session is opened on request; while a drain is, none outside of the others. Both
// outlive the daemon, are shown, and are in the audit log.
func TestRefuses(t *testing.T) {
	d := daemontest.New(t)
	s := d.Session("user", 100, api.NewSession{Name: "lngtest"})
	open := func(adopt bool) daemontest.Reply {
		d.Add(130, daemontest.User, 1000, "lngtest-root")
		return d.Do("user", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 130}, Adopt: adopt})
	}
	set(d, api.HaltRequest{Mode: api.ModeDrain, Reason: "maintenance"})
	open(false).Refused(api.CodeHalted)
	if e := open(true).Refused(api.CodeHalted); e.Exit != api.ExitDenied || !strings.Contains(e.Message, "maintenance") {
		t.Errorf("%+v", e)
	}
	d.Fork(100, 101, 1000, "lngtest-member")
	inside := daemontest.Into[api.Session](d.Do("user", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 101}, Adopt: true}), http.StatusCreated)
	if inside.Parent != s.ID {
		t.Errorf("%+v", inside)
	}
	d.Restart()
	st := daemontest.Get[api.Status](d, "user", "/v1/status")
	list := daemontest.Get[api.Sessions](d, "user", "/v1/sessions")
	for _, h := range []*api.Halt{st.Halt, list.Halt} {
		if h == nil || h.Mode != api.ModeDrain || h.Reason != "maintenance" || h.UID != 0 || h.Since == nil {
			t.Errorf("%+v", h)
		}
	}
	d.Unsignalled()
	set(d, api.HaltRequest{Mode: api.ModeHalt, Reason: "case 7", All: true})
	d.Receipt(s.ID)
	open(false).Refused(api.CodeHalted)
	if h := set(d, api.HaltRequest{Mode: api.ModeOff}); h.Halt != nil || len(h.Items) != 0 {
		t.Errorf("%+v", h)
	}
	daemontest.Into[api.Session](open(false), http.StatusCreated)
	d.Halt()
	require.Contains(t, d.Audit(), `"reason":"drain: maintenance"`, `"reason":"halt: case 7"`, `"reason":"off"`)
}
