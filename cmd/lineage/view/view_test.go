package view

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// daemon is a daemon that answers at the second attempt.
type daemon struct {
	api.Client
	sessions map[string]bool
	closed   bool
}

func (d *daemon) Session(_ context.Context, s string) (*api.Session, error) {
	if d.sessions[s] {
		return &api.Session{ID: s}, nil
	}
	return nil, api.NewError(api.CodeNotFound, "not found", "")
}

func (d *daemon) Close() error { d.closed = true; return nil }

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
		d, tries := &daemon{sessions: map[string]bool{"web": true}}, 0
		connect, err := Daemon(t.Context(), func(context.Context) (api.Client, error) {
			if tries++; tries == 1 {
				return nil, &api.UnreachableError{Socket: "/s", Err: tt.first}
			}
			return d, nil
		}, "web")
		if waits := err == nil; waits != tt.waits {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !tt.waits {
			if !errors.Is(err, tt.first) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if _, s, err := connect(t.Context()); err != nil || s.ID != "web" || tries != 2 {
			t.Errorf("%s: then %v, %v", tt.name, s, err)
		}
	}
}

func TestDaemonWithoutTheSession(t *testing.T) {
	d := &daemon{}
	_, err := Daemon(t.Context(), func(context.Context) (api.Client, error) { return d, nil }, "web")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeNotFound || !d.closed {
		t.Errorf("%v, closed %t", err, d.closed)
	}
}
