//go:build linux

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestHeaders: a file of headers is read as a whole or refused, and an error repeats nothing of it.
func TestHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]any{
		"# of the receiver\n\nAuthorization: Bearer s3cret\r\nX-Scope:a:b\nx-scope: c\n": http.Header{"Authorization": {"Bearer s3cret"}, "X-Scope": {"a:b", "c"}},
		"":                            "it has no header",
		"# s3cret\n":                  "it has no header",
		"A: b\ns3cret":                "line 2 is not",
		": s3cret":                    "line 1 is not",
		"A b: s3cret":                 "line 1 is not",
		"A: s3cret\x00":               "line 1 is not",
		strings.Repeat("s3cret", 1e5): "a line is too long",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := readHeader(path)
		if why, bad := want.(string); bad {
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%.40q: %v, want %s", text, err, why)
			}
		} else if err != nil || !reflect.DeepEqual(any(got), want) {
			t.Errorf("%.40q: %v, %v", text, got, err)
		}
	}
	if h, err := readHeader(""); len(h) != 0 || err != nil {
		t.Errorf("without a file: %v, %v", h, err)
	}
}

// TestServers: receipts go to the servers of a group, under the name that it or this host has, and need a cursor.
func TestServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.yaml")
	t.Setenv("LINEAGE_HOSTS", file)
	require.NoError(t, os.WriteFile(file, []byte(`
named: {transport: nats, servers: ["nats://127.0.0.1:1"], name: web1}
host: {transport: nats, servers: ["nats://127.0.0.1:1"]}
other: {transport: nats, servers: ["nats://nats.example.org"]}
ssh: {hosts: [web1]}
`), 0o600))
	own, err := service.HostName()
	require.NoError(t, err)
	for group, want := range map[string]string{
		"@named": "web1", "@host": own, "@other": "hosts.yaml: invalid server", "@ssh": "must have transport: nats",
		"@none": "has no group", "@named,@host": "must have",
	} {
		b, name, err := servers(&service.ExportOptions{NATS: group, State: "x"}, zerolog.Nop())
		if err != nil {
			name = err.Error()
		} else {
			b.Close()
		}
		require.Contains(t, name, want)
	}
	_, _, err = servers(&service.ExportOptions{NATS: "@named"}, zerolog.Nop())
	require.Contains(t, err.Error(), "needs --state")
}

// TestStart: an option that names what cannot be used is a mistake of the caller, and without a daemon the exporter
// waits for one until it is stopped.
func TestStart(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	otlp := []string{"--otlp", "http://127.0.0.1:1", "--signals", "logs,traces"}
	for _, wrong := range [][]string{
		append(otlp, "--ca", none), append(otlp, "--header-file", none), {"--ocsf", filepath.Join(none, "x")}, {"--nats", "@lngtest-none"},
	} {
		t.Setenv("STATE_DIRECTORY", t.TempDir()) // it is locked until the process exits
		if err := start(t.Context(), wrong, zerolog.Nop()); !errors.As(err, new(service.UsageError)) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	right := append(otlp, "--ocsf", filepath.Join(dir, "ocsf.jsonl"), "--state", dir, "--socket", none)
	require.NoError(t, start(stopped, right, zerolog.Nop()))
}
