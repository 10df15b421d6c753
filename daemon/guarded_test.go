//go:build linux

package daemon_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// TestOrphansAccess: without a session named, each caller sees what that caller may
// read.
func TestOrphansAccess(t *testing.T) {
	w := newWorld(t)
	w.Session("user", 40, api.NewSession{})
	w.Session("else", 50, api.NewSession{})
	w.Session("root", 60, api.NewSession{})
	for _, root := range []uint32{40, 50, 60} {
		w.K.Fork(root, root+1, "lngtest-gone")
		w.K.Fork(root+1, root+2, "lngtest-orphan")
		w.K.Exit(root+1, 0)
	}
	for who, want := range map[string][]int{
		"root": {42, 52, 62}, "reader": {42, 52, 62}, "user": {42}, "else": {52}, "40": {42}, "60": {62},
	} {
		var got []int
		for _, o := range daemontest.Into[api.Orphans](w.Do(who, "GET", "/v1/orphans", nil), http.StatusOK).Items {
			got = append(got, o.PID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s is told of %s, want %s", who, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}
