//go:build linux

package daemon

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

func (w *world) ref(pid uint32) string { return document.Ref(w.k.Proc(pid).Identity).String() }

func kill(signal string) api.KillRequest { return api.KillRequest{Signal: signal} }

// TestKillOfLateMember: a caller that may read an outsider, and may not kill, does not
// kill it when it becomes a member meanwhile.
func TestKillOfLateMember(t *testing.T) {
	var late func()
	w := newWorld(t, func(w *world) {
		w.h.hold = func(pid uint32) (enforcer.Handle, error) { late(); return w.k.Hold(pid) }
	})
	s := w.session("user", 100, api.NewSession{})
	w.host(400, shell, 1000, "lngtest-late")
	p := w.k.Proc(400).Identity
	late = func() {
		if err := w.k.Enter(w.id(s.ID), p, tracer.Identity{}, tracer.SourceRequest); err != nil {
			t.Error(err)
		}
	}
	w.do("reader", "POST", "/v1/processes/"+w.ref(400)+"/kill", kill("KILL")).refused(api.CodeDenied)
	if sent := w.k.Sent(); len(sent) > 0 {
		t.Errorf("sent %v", sent)
	}
}

func TestKill(t *testing.T) {
	w := newWorld(t)
	w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	w.session("else", 300, api.NewSession{GraceMS: ms(0)})
	for pid := uint32(101); pid < 107; pid++ {
		w.k.Fork(100, pid, "lngtest-a")
		w.proc(pid, 100, 1000, "lngtest-a")
	}
	w.k.Fork(105, 115, "lngtest-nested")
	w.proc(115, 105, 1000, "lngtest-nested")
	into[api.Session](w.do("105", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 115}}), http.StatusCreated)
	w.k.Fork(115, 116, "lngtest-sub")
	w.k.Edit(104, func(p *kerneltest.Proc) { p.Unreaped = true })
	zombie := w.ref(104)
	w.k.Exit(104, 0)
	w.host(500, shell, 0, "lngtest-reaper")
	reaper := w.k.Proc(500).Identity
	w.k.Fork(100, 107, "lngtest-a")
	w.k.Edit(107, func(p *kerneltest.Proc) { p.Unreaped, p.Parent = true, reaper })
	roots := w.ref(107)
	w.k.Exit(107, 0)
	gone := w.ref(106)
	w.k.Exit(106, 0)

	path := func(ref string) string { return "/v1/processes/" + ref + "/kill" }
	for _, c := range []struct {
		name, who, ref, signal, outcome string
		sent                            kerneltest.Sent
	}{
		{"TERM by its uid", "user", w.ref(101), "TERM", "sent", kerneltest.Sent{To: w.k.Proc(101).Identity, Signal: unix.SIGTERM}},
		{"KILL by root", "root", w.ref(102), "KILL", "sent", kerneltest.Sent{To: w.k.Proc(102).Identity, Signal: unix.SIGKILL}},
		{"CONT", "user", w.ref(103), "CONT", "sent", kerneltest.Sent{To: w.k.Proc(103).Identity, Signal: unix.SIGCONT}},
		{"nudge", "user", zombie, "CHLD", "sent", kerneltest.Sent{To: w.k.Proc(100).Identity, Signal: unix.SIGCHLD}},
		{"nudge of root's process by root", "root", roots, "CHLD", "sent", kerneltest.Sent{To: reaper, Signal: unix.SIGCHLD}},
		{"a nested one by a member", "103", w.ref(116), "KILL", "sent", kerneltest.Sent{To: w.k.Proc(116).Identity, Signal: unix.SIGKILL}},
		{"one that is gone", "user", gone, "KILL", "gone", kerneltest.Sent{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.k.Sent())
			k := into[api.Killed](w.do(c.who, "POST", path(c.ref), kill(c.signal)), http.StatusOK)
			if k.Kind != "killed" || k.Outcome != c.outcome || k.Process.Ref.String() != c.ref {
				t.Errorf("%+v", k)
			}
			sent := w.k.Sent()[before:]
			if c.sent.Signal == 0 && len(sent) != 0 || c.sent.Signal != 0 && (len(sent) != 1 || sent[0] != c.sent) {
				t.Errorf("sent %v, want %v", sent, c.sent)
			}
		})
	}

	sent := len(w.k.Sent())
	live := w.ref(103)
	another := strings.Replace(live, "@", "@1", 1)
	w.host(400, shell, 1000, "lngtest-stranger")
	for _, c := range []struct{ name, who, ref, body, code string }{
		{"another uid", "else", live, `{"signal":"TERM"}`, api.CodeDenied},
		{"the group", "reader", live, `{"signal":"TERM"}`, api.CodeDenied},
		{"a member, its own session", "105", live, `{"signal":"TERM"}`, api.CodeDenied},
		{"a member, itself", "103", live, `{"signal":"TERM"}`, api.CodeDenied},
		{"a member, another session", "103", w.ref(300), `{"signal":"TERM"}`, api.CodeDenied},
		{"a nested member, its ancestor", "115", live, `{"signal":"TERM"}`, api.CodeDenied},
		{"another PID namespace", "away", live, `{"signal":"TERM"}`, api.CodePIDNamespace},
		{"another process now", "user", another, `{"signal":"TERM"}`, api.CodeIdentity},
		{"no member", "root", w.ref(400), `{"signal":"KILL"}`, api.CodeDenied},
		{"no member, own uid", "user", w.ref(400), `{"signal":"KILL"}`, api.CodeDenied},
		{"no member, another uid", "else", w.ref(400), `{"signal":"KILL"}`, api.CodeDenied},
		{"nobody", "root", "4000@5", `{"signal":"KILL"}`, api.CodeNotFound},
		{"a PID alone", "root", "103", `{"signal":"KILL"}`, api.CodeBadRequest},
		{"no PID", "root", "x", `{"signal":"KILL"}`, api.CodeBadRequest},
		{"no signal", "root", live, ``, api.CodeBadRequest},
		{"another signal", "root", live, `{"signal":"STOP"}`, api.CodeBadRequest},
		{"a number", "root", live, `{"signal":"9"}`, api.CodeBadRequest},
		{"unknown field", "root", live, `{"sig":"KILL"}`, api.CodeBadRequest},
		{"a nudge of root's process", "user", roots, `{"signal":"CHLD"}`, api.CodeDenied},
		{"a nudge for the living", "user", live, `{"signal":"CHLD"}`, api.CodeBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			if e := w.do(c.who, "POST", path(c.ref), c.body).refused(c.code); e.Message == "" {
				t.Errorf("%+v", e)
			}
		})
	}
	if now := w.k.Sent(); len(now) != sent {
		t.Errorf("a refusal sent %v", now[sent:])
	}
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	log := w.audited()
	for _, want := range []string{
		fmt.Sprintf(`"verb":"kill","decision":"done","reason":"SIGTERM: sent","caller":{"uid":1000,"pid":%d`, userPID),
		`"reason":"SIGCHLD: sent"`, `"reason":"SIGKILL: gone"`, `"verb":"kill","decision":"refused"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log has no %s:\n%s", want, log)
		}
	}
}

// audited returns the audit log of a daemon that has stopped.
func (w *world) audited() string {
	w.Helper()
	b, err := os.ReadFile(w.i.Audit)
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}
