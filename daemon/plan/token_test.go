//go:build linux

package plan

import (
	"fmt"
	"testing"
)

// TestPlansOfOthers: who makes many plans makes no plan of others expire, even of the same
// processes.
func TestPlansOfOthers(t *testing.T) {
	var p plans
	root, alice, agent := owner{}, owner{uid: 1000}, owner{member: 7}
	add := func(by owner, token string) { p.add(&plan{token: token, by: by}) }
	found := func(token string) bool { return p.find(token, Subject{}, 0) != nil }
	add(root, "of root")
	add(alice, "of alice")
	add(agent, "of root")
	for n := range 3 * maxPlans {
		add(agent, fmt.Sprint(n))
	}
	if !found("of root") || !found("of alice") || len(p.all) != maxPlans {
		t.Errorf("of root: %v, of alice: %v, of %d", found("of root"), found("of alice"), len(p.all))
	}
	for uid := range uint32(maxPlans) {
		add(owner{uid: 2000 + uid}, fmt.Sprint("one of ", uid))
	}
	if !found("of root") || !found(fmt.Sprint("one of ", maxPlans-1)) {
		t.Error("many users make root's expire, or the last one is not kept")
	}
	for n := range maxPlans + 1 {
		add(root, fmt.Sprint("root ", n))
	}
	if len(p.all) != maxPlans || found("root 0") || !found(fmt.Sprint("root ", maxPlans)) {
		t.Errorf("%d plans of root", len(p.all))
	}
}
