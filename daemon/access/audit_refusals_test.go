//go:build linux

package access

import (
	"testing"
	"time"
)

func TestRefusalsAreSummedUp(t *testing.T) {
	var all []AuditRecord
	now := time.Duration(0)
	r := newRefusals(func(rec AuditRecord) { all = append(all, rec) }, func() time.Duration { return now })
	rec := func(uid int, verb string) AuditRecord {
		return AuditRecord{Verb: verb, Decision: AuditRefused, Caller: &AuditCaller{UID: uid}}
	}
	for range 1000 {
		r.Add(rec(1, "end"))
	}
	r.Add(rec(2, "end"))
	r.Add(rec(1, "kill"))
	if len(all) != maxSingle+2 {
		t.Fatalf("%d records", len(all))
	}
	now = sumPeriod
	r.Add(rec(3, "read"))
	sum := all[len(all)-2]
	if sum.Count != 1000-maxSingle || sum.Caller.UID != 1 || sum.Verb != "end" {
		t.Errorf("%+v", sum)
	}
	if r.Add(rec(1, "end")); all[len(all)-1].Count != 0 {
		t.Error("the next minute begins with a sum")
	}
	for uid := range 5000 {
		for range 3 {
			r.Add(rec(10+uid, "end"))
		}
	}
	if len(r.kinds) > maxKinds+1 {
		t.Errorf("%d kinds", len(r.kinds))
	}
	r.Flush()
	total := uint64(0)
	for _, rec := range all {
		total += max(rec.Count, 1)
	}
	if want := uint64(1000 + 2 + 1 + 1 + 15000); total != want || len(r.kinds) != 0 {
		t.Errorf("%d refusals are recorded, want %d", total, want)
	}
}
