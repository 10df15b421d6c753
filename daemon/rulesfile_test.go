//go:build linux

package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// A daemon does not start with an invalid policy.
func TestPolicyRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	i, err := system.InstanceOf(filepath.Join(dir, "s"))
	require.NoError(t, err)
	good := func() { os.Remove(file); os.WriteFile(file, []byte("version: 1\n"), 0o644) }
	for what, tt := range map[string]struct {
		make func()
		want string
	}{
		"absent":    {func() { os.Remove(file) }, "no such file"},
		"mistake":   {func() { good(); os.WriteFile(file, []byte("version: 1\nmode: yes\n"), 0o644) }, file + ":2:7: "},
		"stranger":  {func() { good(); os.Chown(file, 1000, 0) }, "it belongs to uid 1000"},
		"group":     {func() { good(); os.Chmod(file, 0o664) }, "users other than root may write to it"},
		"others":    {func() { good(); os.Chmod(file, 0o646) }, "users other than root may write to it"},
		"directory": {func() { os.Remove(file); os.Mkdir(file, 0o755) }, "not a regular file"},
		"fifo":      {func() { os.Remove(file); unix.Mkfifo(file, 0o600) }, "not a regular file"},
	} {
		if what == "stranger" && os.Geteuid() != 0 {
			t.Log("skipped: only root can give a file away")
			continue
		}
		tt.make()
		opened := false
		h := Host{Open: func(tracer.Options) (Kernel, error) { opened = true; return nil, errors.New("opened") }}
		err := h.Serve(context.Background(), Options{Socket: i.Socket, Policy: file}, nil, zerolog.Nop())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || opened {
			t.Errorf("%s: %v, opened %t", what, err, opened)
		}
	}
	good()
	r, err := rules.Load(file, true, registry.Clock{})
	require.NoError(t, err)
	o := Options{}
	if o.begin(r.Started()); o.Level != 0 {
		t.Errorf("level %d", o.Level)
	}
	os.WriteFile(file, []byte("version: 1\ndaemon: {level: 2, log_level: warn}\n"), 0o644)
	r, err = rules.Load(file, true, registry.Clock{})
	require.NoError(t, err)
	if o.begin(r.Started()); o.Level != 2 || r.LogLevel() != zerolog.WarnLevel {
		t.Errorf("level %d, log level %v", o.Level, r.LogLevel())
	}
	o.Level = 3 // the command line takes precedence
	if o.begin(r.Started()); o.Level != 3 {
		t.Errorf("level %d", o.Level)
	}
}

// Instances other than the host's have no default file.
func TestPolicyOfInstance(t *testing.T) {
	for socket, want := range map[string]string{api.DefaultSocket: policy.DefaultFile, "/tmp/lngtest/s": ""} {
		i, err := system.InstanceOf(socket)
		require.NoError(t, err)
		if path, must := policyFile(i, Options{}); path != want || must {
			t.Errorf("%s: %q, %t", socket, path, must)
		}
		if path, must := policyFile(i, Options{Policy: "/x"}); path != "/x" || !must {
			t.Errorf("%s: %q, %t", socket, path, must)
		}
	}
}
