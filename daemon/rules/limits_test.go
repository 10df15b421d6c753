//go:build linux

package rules_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func (p *world) soFar(id string) *api.Report {
	p.Helper()
	return daemontest.Into[api.Report](p.Do("root", "GET", "/v1/sessions/"+id+"/report", nil), http.StatusAccepted)
}

// The memory of a session that is shown is what its limit counts: nested sessions are in it. What is
// done there is work of the session.
func TestBudgetCountsNested(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("")) // observe: limits that a caller asked for apply in both modes
	outer := p.Session("user", 40, api.NewSession{MaxRSSBytes: 100 << 20, IdleMS: 10_000, GraceMS: daemontest.MS(0)})
	p.Fork(40, 50, 1000, "lngtest-inner")
	inner := daemontest.Into[api.Session](p.Do("40", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 50}}), http.StatusCreated)
	p.K.Edit(40, func(x *kerneltest.Proc) { x.RSS = 40 << 20 })
	p.K.Edit(50, func(x *kerneltest.Proc) { x.RSS = 60 << 20 })
	for range 4 {
		p.K.Edit(50, func(x *kerneltest.Proc) { x.CPUTime += uint64(5 * time.Second) })
		p.Look()
		p.K.Advance(6 * time.Second)
	}
	for id, want := range map[string]uint64{outer.ID: 100 << 20, inner.ID: 60 << 20} {
		if s := daemontest.Get[api.Session](p, "user", "/v1/sessions/"+id); s.State != "active" || s.RSSBytes != want {
			t.Errorf("%s, in session %q: %s, %d bytes, want %d", s.ID, s.Parent, s.State, s.RSSBytes, want)
		}
	}
	p.K.Edit(50, func(x *kerneltest.Proc) { x.RSS++ })
	p.Look()
	if r := p.Receipt(outer.ID); r.EndReason != "max_rss" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}

func TestBudgetOfPolicyObserved(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("defaults: {max_rss: 64MiB, idle: 10s}\n"))
	s := p.Session("user", 40, api.NewSession{})
	p.K.Edit(40, func(x *kerneltest.Proc) { x.RSS = 65 << 20 })
	for range 3 {
		p.Look()
	}
	p.K.Edit(40, func(x *kerneltest.Proc) { x.RSS = 0 })
	p.K.Advance(11 * time.Second)
	p.Look()
	if r := p.soFar(s.ID); r.State != "active" || !slices.Equal(r.WouldEnd, []string{"max_rss", "idle"}) {
		t.Errorf("%+v", r)
	}
}

func TestBudgetOfPolicyEnforced(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\ndefaults: {max_rss: 64MiB, grace: 0s}\nbreaker: {ends_per_minute: 2}\n"))
	var ids []string
	for pid := range uint32(3) {
		ids = append(ids, p.Session("user", 40+pid, api.NewSession{}).ID)
	}
	for pid := range uint32(3) {
		p.K.Edit(40+pid, func(x *kerneltest.Proc) { x.RSS = 65 << 20 })
	}
	p.Look()
	ended, spared := 0, 0
	for _, id := range ids {
		if r := daemontest.Get[api.Session](p, "root", "/v1/sessions/"+id); r.State == "active" {
			spared++
			if r := p.soFar(id); !slices.Equal(r.WouldEnd, []string{"max_rss"}) {
				t.Errorf("%+v", r)
			}
		} else if r := p.Receipt(id); r.EndReason == "max_rss" && r.Verdict == "clean" {
			ended++
		}
	}
	// The third would exceed what the breaker allows in a minute.
	if ended != 2 || spared != 1 || !p.Status().Breaker.Open {
		t.Errorf("%d ended, %d spared, breaker %+v", ended, spared, p.Status().Breaker)
	}
}

// A limit ends no session with a process that a guard spares, and the audit log says so.
func TestBudgetGuarded(t *testing.T) {
	p := newWorld(t)
	p.Session("user", 40, api.NewSession{MaxRSSBytes: 1 << 20, GraceMS: daemontest.MS(0)})
	in := p.K.Proc(40).Session
	p.K.Edit(40, func(x *kerneltest.Proc) { x.RSS = 2 << 20 })
	p.K.Edit(1, func(x *kerneltest.Proc) { x.Session = in })
	p.Look()
	p.Unsignalled()
	p.Halt()
	require.Contains(t, p.Audit(), `"verb":"end","decision":"refused"`)
}

// On an idle host no hook runs that would see that a lifetime has expired: the daemon's
// own look does.
func TestLifetimeOnAnIdleHost(t *testing.T) {
	w := newWorld(t)
	s := w.Session("user", 100, api.NewSession{MaxLifetimeMS: 2000, GraceMS: daemontest.MS(0)})
	w.Look()
	if info, err := w.K.Session(w.ID(s.ID)); err != nil || info.Cause != 0 {
		t.Fatalf("before: %+v, %v", info, err)
	}
	w.K.Advance(3 * time.Second)
	w.Look()
	if r := w.Receipt(s.ID); r.EndReason != "max_lifetime" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}
