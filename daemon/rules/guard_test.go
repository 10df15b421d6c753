//go:build linux

package rules_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestSignals: the kernel learns which sessions are guarded, at once when the policy changes, and each
// session says what happens to its signals.
func TestSignals(t *testing.T) {
	const rule = "agents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent}, signals: "
	p := newWorld(t, daemontest.WithPolicy("mode: enforce\nsignals: session\n"+rule+"any}\n"))
	s := p.Session("root", 100, api.NewSession{}) // of a kernel that cannot refuse
	told := fmt.Sprint(p.Status().Degraded, s.Warnings, s.Signals)
	require.Equal(t, told, fmt.Sprintf("[%s] [%[1]s]recorded", policy.Unrefused))
	p.K.Edit(1, func(*kerneltest.Proc) { p.K.Feature.RefusesSignals = tracer.RefuserLSM })
	require.Equal(t, p.K.Settings().Guarding, tracer.Guarding{All: true, Refuse: true})
	p.Add(300, daemontest.Shell, 1000, "lngtest-sh")
	id := p.becomes(300, daemontest.Shell, 1000, "lngtest-agent")
	require.Equal(t, p.held(id).Guard, tracer.GuardOff)
	are := func(ofSession, ofAgent api.SignalFate) {
		t.Helper()
		p.Until(func() bool {
			a := daemontest.Get[api.Session](p, "root", "/v1/sessions/"+s.ID)
			b := daemontest.Get[api.Session](p, "root", "/v1/sessions/"+id.String())
			return a.Signals == ofSession && b.Signals == ofAgent
		})
	}
	are(api.SignalsRefused, "")
	p.Reload("signals: session\n" + rule + "any}\n")
	require.Equal(t, p.K.Settings().Guarding, tracer.Guarding{All: true})
	are(api.SignalsRecorded, "")
	p.Reload("mode: enforce\n" + rule + "session}\n")
	require.Equal(t, p.K.Settings().Guarding, tracer.Guarding{Some: true, Refuse: true})
	are("", api.SignalsRefused)
	require.Equal(t, p.explained(300).Effect, "opened session "+id.String()+", grace 5s, signals session, spare root")
	p.Reload("mode: enforce\n")
	require.Equal(t, p.K.Settings().Guarding, tracer.Guarding{})
}

// TestSpare: which sessions spare their root: those of agent rules with signals: session, unless spare says
// otherwise, and none of a container's; recorded or refused, as the mode says.
func TestSpare(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy("mode: observe\n"))
	for n, k := range []struct {
		policy, rule string
		want         tracer.Spare
	}{
		{"", "", tracer.SpareNone},
		{"mode: enforce\nsignals: session", "", tracer.SpareRefuse},
		{"signals: session", "", tracer.SpareRecord},
		{"", "signals: session", tracer.SpareRecord},
		{"signals: session", "signals: any", tracer.SpareNone},
		{"signals: session\nspare: none", "", tracer.SpareNone},
		{"signals: session\nspare: none", "spare: root", tracer.SpareRecord},
		{"mode: enforce\nspare: root", "", tracer.SpareRefuse},
		{"mode: enforce\nspare: root", "spare: none", tracer.SpareNone},
	} {
		p.Reload(k.policy + "\nagents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent}, " + k.rule + "}\n")
		pid := uint32(300 + n)
		p.Add(pid, daemontest.Shell, 1000, "lngtest-sh")
		id := p.becomes(pid, daemontest.Shell, 1000, "lngtest-agent")
		if got := p.held(id).Spare; got != k.want {
			t.Errorf("%q, rule %q: %v, want %v", k.policy, k.rule, got, k.want)
		}
		p.K.Exit(pid, 0)
	}
	whole := policy.Default()
	whole.Signals = "session"
	require.Equal(t, whole.Terms((&policy.Container{}).Agent()).Spared, false)
	s := p.Session("root", 100, api.NewSession{Spare: "root"})
	require.Equal(t, slices.Contains(s.Warnings, policy.Unrefused), true)
	p.Do("root", "POST", "/v1/sessions", `{"root":{"pid":100},"spare":"foo"}`).Refused(api.CodeBadRequest)
	p.K.Edit(1, func(*kerneltest.Proc) { p.K.Feature.RefusesSignals = tracer.RefuserLSM })
	s = p.Session("root", 101, api.NewSession{Spare: "root"})
	require.Equal(t, len(s.Warnings), 0)
	info, err := p.K.Session(p.K.Proc(101).Session)
	require.NoError(t, err)
	require.Equal(t, info.Spare, tracer.SpareRefuse)
}
