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
)

// The request for idle sessions looks at what members use now. A busy grandchild is work, in a
// nested session, too; so are a birth and an open call. Other users' sessions are not listed.
func TestIdleSessions(t *testing.T) {
	p := newWorld(t)
	ids := func(who string) (all []string) {
		for _, s := range daemontest.Get[api.Sessions](p, who, "/v1/sessions?state=idle").Items {
			if s.IdleSeconds <= 0 {
				t.Errorf("%+v", s)
			}
			all = append(all, s.Name)
		}
		return all
	}
	idle := func(what string, want ...string) {
		t.Helper()
		if got := ids("user"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	outer := p.Session("user", 40, api.NewSession{Name: "outer", GraceMS: daemontest.MS(0)})
	p.Session("user", 60, api.NewSession{Name: "alone", GraceMS: daemontest.MS(0)})
	p.Fork(40, 50, 1000, "lngtest-inner")
	daemontest.Into[api.Session](p.Do("40", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 50}, Name: "inner"}), http.StatusCreated)
	p.Fork(50, 51, 1000, "lngtest-child")
	idle("before the first look")
	p.Look()
	p.K.Advance(time.Hour)
	idle("after an hour", "outer", "alone", "inner")
	if got := ids("else"); len(got) != 0 {
		t.Errorf("another user sees %q", got)
	}
	if got := ids("root"); len(got) != 3 {
		t.Errorf("root sees %q", got)
	}
	if s := daemontest.Get[api.Session](p, "user", "/v1/sessions/"+outer.ID); s.IdleSeconds != 3600 || s.LastEvent == nil {
		t.Errorf("%+v", s)
	}
	p.K.Edit(51, func(x *kerneltest.Proc) { x.CPUTime += uint64(time.Second) })
	p.K.Advance(2 * time.Second)
	idle("a grandchild was busy", "alone")
	p.K.Advance(time.Minute)
	idle("a minute later", "outer", "alone", "inner")
	p.Fork(60, 61, 1000, "lngtest-new")
	idle("a birth", "outer", "inner")
	p.Look()
	p.K.Advance(time.Minute)

	mark := func(phase string) {
		daemontest.Into[api.Mark](p.Do("50", "POST", "/v1/marks", api.MarkRequest{Phase: phase, ID: "one", Agent: p.RefOf(50)}), http.StatusOK)
	}
	mark("begin")
	p.K.Advance(time.Hour)
	idle("an open call", "alone")
	mark("end")
	p.K.Advance(time.Minute)
	idle("a closed call", "outer", "alone", "inner")
	if s := daemontest.Get[api.Session](p, "user", "/v1/sessions/"+outer.ID); s.IdleSeconds != 60 {
		t.Errorf("idle since the call: %v s", s.IdleSeconds)
	}
	p.Do("user", "GET", "/v1/sessions?state=idly", nil).Refused(api.CodeBadRequest)
}
