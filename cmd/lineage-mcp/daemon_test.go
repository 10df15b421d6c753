//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// The reason is given once, also if the agent starts the server again, until a daemon answers.
func TestToldOnce(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}[name] }
	ask := func(d *daemon) bool {
		t.Helper()
		err := d.ask(t.Context(), func(api.Client, string) error { return nil })
		if err == nil {
			t.Fatal("a daemon answers")
		}
		return !errors.Is(err, errSilent)
	}
	d := newDaemon(filepath.Join(dir, "sock"), env)
	if !ask(d) || ask(d) || ask(newDaemon(d.socket, env)) {
		t.Error("want the reason once")
	}
	d.reached()
	if !ask(newDaemon(d.socket, env)) {
		t.Error("after an answer it is a new outage")
	}
}

// The user's directory may have links where another user wants root to write.
func TestToldThroughLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, name := range []string{"lineage", "lineage-mcp-unreachable"} {
		require.NoError(t, os.Symlink(filepath.Join(elsewhere, name), filepath.Join(dir, name)))
	}
	env := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}[name] }
	_ = newDaemon(filepath.Join(dir, "sock"), env).ask(context.Background(), func(api.Client, string) error { return nil })
	if found, err := os.ReadDir(elsewhere); err != nil || len(found) > 0 {
		t.Errorf("%v is written: %v", found, err)
	}
}
