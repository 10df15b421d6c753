package view

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

// The view waits only for a daemon that does not run yet.
func TestDaemon(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first error
		waits bool
	}{
		{"no socket", os.ErrNotExist, true},
		{"nobody behind it", syscall.ECONNREFUSED, true},
		{"hangs", api.ErrSilent, true},
		{"not permitted", os.ErrPermission, false},
		{"something else", api.ErrNotLineage, false},
	} {
		d, tries := &apitest.Client{}, 0
		connect, err := Daemon(t.Context(), func(context.Context) (api.Client, error) {
			if tries++; tries == 1 {
				return nil, &api.UnreachableError{Socket: "/s", Err: tt.first}
			}
			return d, nil
		})
		if waits := err == nil; waits != tt.waits {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !tt.waits {
			if !errors.Is(err, tt.first) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if c, err := connect(t.Context()); err != nil || c != d || tries != 2 {
			t.Errorf("%s: then %v", tt.name, err)
		}
	}
}
