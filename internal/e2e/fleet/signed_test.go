//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestSigned: what an operator signed is carried out on the hosts that know the operator, over ssh, and
// each host signs its receipt.
func TestSigned(t *testing.T) {
	f := start(t)
	stage.Key(t, f.path("ann"))
	var markers []*stage.Marker
	for n, i := range f.hosts[:3] {
		if n < 2 {
			policy := i.Policy("operators: [{name: ann, verbs: [end, halt]}]\n")
			i.Operators(f.path("ann"))
			f.daemons[n].Stop()
			i.Daemon("--policy", policy)
		}
		m := stage.NewMarker(t, i.Dir)
		markers = append(markers, m)
		i.Run(m, []string{"--name", "shared", "--grace", "0s"}, "daemonise", "stay")
		m.Ready()
	}
	signed := func(code int, hosts string, args ...string) map[string]answer {
		t.Helper()
		return f.answers(f.lineage(code, append(args, "--sign", f.path("ann"), "--reason", "case 7", "--yes", "-o", "json", "-H", hosts)...))
	}
	all := signed(api.ExitLeft, "h0,h1,h2", "end", "shared")
	for n, m := range markers[:2] {
		m.MustBeGone()
		var r api.CommandReceipt
		a := all[fmt.Sprintf("h%d", n)]
		if err := json.Unmarshal([]byte(a.Document.Receipt), &r); err != nil || a.Exit != 0 || !r.Complete || len(r.Reports) != 1 ||
			r.Reports[0].Verdict != api.VerdictClean || strings.Join(r.Operators, " ") != "ann" {
			t.Errorf("h%d: %v, %+v, %+v", n, err, a, r)
		}
	}
	if a := all["h2"]; a.Exit != api.ExitDenied || !strings.Contains(a.Error, "command refused") || !markers[2].Drain() {
		t.Errorf("h2: %+v", a)
	}
	signed(api.ExitOK, "h0,h1", "halt", "--drain")
	for _, i := range f.hosts[:2] {
		if h := i.Status().Halt; h == nil || h.Mode != api.ModeDrain {
			t.Errorf("%+v", h)
		}
	}
	signed(api.ExitOK, "h0,h1", "halt", "--off")
	if h := f.hosts[1].Status().Halt; h != nil {
		t.Errorf("%+v", h)
	}
	f.hosts[2].Must("end", "shared", "--now", "--yes")
}
