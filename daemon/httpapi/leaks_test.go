//go:build linux

package httpapi_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// Callers are not told of sessions that they may not read, and nobody of an ended one.
func TestLeaksAccess(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 40, api.NewSession{})
	w.Session("else", 41, api.NewSession{})
	for who, want := range map[string]int{"root": 2, "reader": 2, "user": 1, "40": 1} {
		if d := daemontest.Get[api.Leaks](w, who, "/v1/leaks"); len(d.Items) != want || d.Items[0].Kind != "leak" {
			t.Errorf("%s: %+v", who, d)
		}
	}
	w.Do("else", "GET", "/v1/orphans?session="+s.ID, nil).Refused(api.CodeNotFound)
	w.Do("root", "GET", "/v1/orphans?sesion=x", nil).Refused(api.CodeBadRequest)
	w.End("root", s.ID)
	if d := daemontest.Get[api.Leaks](w, "root", "/v1/leaks"); len(d.Items) != 1 {
		t.Errorf("%+v", d)
	}
}
