//go:build linux

package daemon

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/audit"
)

// notes is an audit log in memory.
type notes struct {
	silence
	all []audit.Record
}

func (n *notes) Add(r audit.Record) { n.all = append(n.all, r) }

func TestRefusalsAreSummedUp(t *testing.T) {
	n := &notes{}
	now := time.Duration(0)
	r := newRefusals(n, func() time.Duration { return now })
	rec := func(uid int, verb string) audit.Record {
		return audit.Record{Verb: verb, Decision: audit.Refused, Caller: &audit.Caller{UID: uid}}
	}
	for range 1000 {
		r.add(rec(1, "end"))
	}
	r.add(rec(2, "end"))
	r.add(rec(1, "kill"))
	if len(n.all) != refusalsAtOnce+2 {
		t.Fatalf("%d records", len(n.all))
	}
	now = refusalsPeriod
	r.add(rec(3, "read"))
	sum := n.all[len(n.all)-2]
	if sum.Count != 1000-refusalsAtOnce || sum.Caller.UID != 1 || sum.Verb != "end" {
		t.Errorf("%+v", sum)
	}
	if r.add(rec(1, "end")); n.all[len(n.all)-1].Count != 0 {
		t.Error("the next minute begins with a sum")
	}
	for uid := range 5000 {
		for range 3 {
			r.add(rec(10+uid, "end"))
		}
	}
	if len(r.kinds) > refusalsKinds+1 {
		t.Errorf("%d kinds", len(r.kinds))
	}
	r.flush()
	total := uint64(0)
	for _, rec := range n.all {
		total += max(rec.Count, 1)
	}
	if want := uint64(1000 + 2 + 1 + 1 + 15000); total != want || len(r.kinds) != 0 {
		t.Errorf("%d refusals are recorded, want %d", total, want)
	}
}

// TestEveryChangeIsRecorded: verbs that change something and are no end, and
// refusals of each.
func TestEveryChangeIsRecorded(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{})
	into[api.Policy](w.do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	into[api.Policy](w.do("root", "POST", "/v1/policy/resume", nil), http.StatusOK)
	into[resynced](w.do("root", "POST", "/v1/resync", nil), http.StatusOK)
	for _, path := range []string{"/v1/policy/reload", "/v1/policy/resume", "/v1/resync", "/v1/daemon/stop"} {
		w.do("100", "POST", path, nil).refused(api.CodeDenied)
	}
	w.do("else", "GET", "/v1/sessions/"+s.ID, nil).refused(api.CodeDenied)
	w.do("100", "POST", "/v1/sessions/"+s.ID+"/end", nil).refused(api.CodeDenied)
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	log := w.audited()
	for want, n := range map[string]int{
		`"decision":"done","reason":"policy reload"`: 1, `"decision":"done","reason":"policy resume"`: 1,
		`"decision":"done","reason":"resync"`:  1,
		`"verb":"manage","decision":"refused"`: 4, `"verb":"read","decision":"refused"`: 1, `"verb":"end","decision":"refused"`: 1,
	} {
		if got := strings.Count(log, want); got != n {
			t.Errorf("%d times %s, want %d:\n%s", got, want, n, log)
		}
	}
}
