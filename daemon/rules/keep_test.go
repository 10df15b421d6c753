//go:build linux

package rules_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestKeepByMember: a member keeps a process of its session only if a keep rule matches
// it, and until when the rule allows. Else the error names the missing rule.
func TestKeepByMember(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("keep:\n  - {name: cache, match: {exe: /bin/lngtest-cache}, reason: shared, until: 2099-01-01}\n"))
	s := p.Session("user", 100, api.NewSession{})
	other := p.Session("user", 200, api.NewSession{})
	for pid, comm := range map[uint32]string{101: "lngtest-cache", 102: "lngtest-own"} {
		p.Fork(100, pid, 1000, comm)
	}
	p.Fork(200, 201, 1000, "lngtest-cache")
	until := time.Now().Add(time.Hour)
	keep := func(pids ...uint32) daemontest.Reply { return p.Keep("100", pids...) }
	if e := keep(102).Refused(api.CodeDenied); !strings.Contains(e.Message,
		`no keep rule of the policy matches exe "/bin/lngtest-own"`) || !strings.Contains(e.Hint, "keep: [{") {
		t.Errorf("%+v", e)
	}
	keep(201).Refused(api.CodeDenied) // a rule matches, but it is in another session
	keep(101, 102).Refused(api.CodeBadRequest)
	p.Keep("user", 101, 201).Refused(api.CodeBadRequest) // of two sessions
	p.In(map[uint32]string{101: s.ID, 102: s.ID, 201: other.ID})
	p.K.Edit(101, func(x *kerneltest.Proc) { x.Runs = &tracer.Running{} })
	if e := keep(101).Refused(api.CodeDenied); !strings.Contains(e.Message,
		`"/bin/lngtest-cache": the process does not execute the file`) || strings.Contains(e.Hint, "keep: [{") {
		t.Errorf("%+v", e)
	}
	p.K.Edit(101, func(x *kerneltest.Proc) { x.Runs = &tracer.Running{File: true, Inside: true} })
	if e := keep(101).Refused(api.CodeDenied); !strings.Contains(e.Message, "user namespace") {
		t.Errorf("%+v", e)
	}
	p.K.Edit(101, func(x *kerneltest.Proc) { x.Runs = nil })
	k := daemontest.Into[api.Session](keep(101), http.StatusCreated)
	if !k.Kept || k.KeepRule != "cache" || k.Reason != "shared" || k.Until == nil || k.Until.Before(until) || p.K.Proc(101).Session.String() != k.ID {
		t.Errorf("%+v", k)
	}
	p.Halt()
	require.Contains(t, p.Audit(), `"verb":"keep","decision":"done","reason":"from session `+s.ID+`, until 2099-01-`, `"target":{"session":"`+k.ID+`","pid":101`)
}
