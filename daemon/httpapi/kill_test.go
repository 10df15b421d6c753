//go:build linux

package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

func kill(signal string) api.KillRequest { return api.KillRequest{Signal: signal} }

// TestKillOfLateMember: a caller that may read an outsider, and may not kill, does not
// kill it when it becomes a member meanwhile.
func TestKillOfLateMember(t *testing.T) {
	var late func()
	w := daemontest.New(t, func(w *daemontest.Daemon) {
		w.Host.Hold = func(pid uint32) (enforcer.Handle, error) { late(); return w.K.Hold(pid) }
	})
	s := w.Session("user", 100, api.NewSession{})
	w.Add(400, daemontest.Shell, 1000, "lngtest-late")
	p := w.K.Proc(400).Identity
	late = func() {
		if err := w.K.Enter(0, w.ID(s.ID), p, tracer.Identity{}, tracer.SourceRequest); err != nil {
			t.Error(err)
		}
	}
	w.Do("reader", "POST", "/v1/processes/"+w.Ref(400)+"/kill", kill("KILL")).Refused(api.CodeDenied)
	if sent := w.K.Sent(); len(sent) > 0 {
		t.Errorf("sent %v", sent)
	}
}

func TestKill(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	w.Session("else", 300, api.NewSession{GraceMS: daemontest.MS(0)})
	for pid := uint32(101); pid < 107; pid++ {
		w.Fork(100, pid, 1000, "lngtest-a")
	}
	w.Fork(105, 115, 1000, "lngtest-nested")
	daemontest.Into[api.Session](w.Do("105", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 115}}), http.StatusCreated)
	w.K.Fork(115, 116, "lngtest-sub")
	gone := w.Ref(106)
	w.K.Exit(106, 0)

	path := func(ref string) string { return "/v1/processes/" + ref + "/kill" }
	for _, c := range []struct {
		name, who, ref, signal, outcome string
		sent                            kerneltest.Sent
	}{
		{"TERM by its uid", "user", w.Ref(101), "TERM", "sent", kerneltest.Sent{To: w.K.Proc(101).Identity, Signal: unix.SIGTERM}},
		{"KILL by root", "root", w.Ref(102), "KILL", "sent", kerneltest.Sent{To: w.K.Proc(102).Identity, Signal: unix.SIGKILL}},
		{"CONT", "user", w.Ref(103), "CONT", "sent", kerneltest.Sent{To: w.K.Proc(103).Identity, Signal: unix.SIGCONT}},
		{"a nested one by a member", "103", w.Ref(116), "KILL", "sent", kerneltest.Sent{To: w.K.Proc(116).Identity, Signal: unix.SIGKILL}},
		{"one that is gone", "user", gone, "KILL", "gone", kerneltest.Sent{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.K.Sent())
			k := daemontest.Into[api.Killed](w.Do(c.who, "POST", path(c.ref), kill(c.signal)), http.StatusOK)
			if k.Kind != "killed" || k.Outcome != c.outcome || k.Process.Ref.String() != c.ref {
				t.Errorf("%+v", k)
			}
			sent := w.K.Sent()[before:]
			if c.sent.Signal == 0 && len(sent) != 0 || c.sent.Signal != 0 && (len(sent) != 1 || sent[0] != c.sent) {
				t.Errorf("sent %v, want %v", sent, c.sent)
			}
		})
	}

	sent := len(w.K.Sent())
	live := w.Ref(103)
	another := strings.Replace(live, "@", "@1", 1)
	w.Add(400, daemontest.Shell, 1000, "lngtest-stranger")
	for _, c := range []struct{ name, who, ref, body, code string }{
		{"a member, another session", "103", w.Ref(300), `{"signal":"TERM"}`, api.CodeDenied},
		{"another PID namespace", "away", live, `{"signal":"TERM"}`, api.CodePIDNamespace},
		{"another process now", "user", another, `{"signal":"TERM"}`, api.CodeIdentity},
		{"no member", "root", w.Ref(400), `{"signal":"KILL"}`, api.CodeDenied},
		{"no member, own uid", "user", w.Ref(400), `{"signal":"KILL"}`, api.CodeDenied},
		{"no member, another uid", "else", w.Ref(400), `{"signal":"KILL"}`, api.CodeDenied},
		{"nobody", "root", "4000@5", `{"signal":"KILL"}`, api.CodeNotFound},
		{"a PID alone", "root", "103", `{"signal":"KILL"}`, api.CodeBadRequest},
		{"no PID", "root", "x", `{"signal":"KILL"}`, api.CodeBadRequest},
		{"no signal", "root", live, ``, api.CodeBadRequest},
		{"another signal", "root", live, `{"signal":"STOP"}`, api.CodeBadRequest},
		{"a number", "root", live, `{"signal":"9"}`, api.CodeBadRequest},
		{"unknown field", "root", live, `{"sig":"KILL"}`, api.CodeBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			if e := w.Do(c.who, "POST", path(c.ref), c.body).Refused(c.code); e.Message == "" {
				t.Errorf("%+v", e)
			}
		})
	}
	if now := w.K.Sent(); len(now) != sent {
		t.Errorf("a refusal sent %v", now[sent:])
	}
	w.Halt()
	log := w.Audit()
	for _, want := range []string{
		fmt.Sprintf(`"verb":"kill","decision":"done","reason":"SIGTERM: sent","caller":{"uid":1000,"pid":%d`, daemontest.User),
		`"reason":"SIGKILL: gone"`, `"verb":"kill","decision":"refused"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log has no %s:\n%s", want, log)
		}
	}
}
