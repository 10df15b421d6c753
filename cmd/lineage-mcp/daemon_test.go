//go:build linux

package main

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestMain is also a daemon that listens and never answers.
func TestMain(m *testing.M) {
	if socket := os.Getenv("LNGTEST_LISTEN"); socket != "" {
		if _, err := net.Listen("unix", socket); err != nil {
			os.Exit(1)
		}
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		return
	}
	os.Exit(m.Run())
}

// TestServer: an agent gets the tools, each marked if it only reads. If the daemon is stopped, the
// answer is an error that lets the agent continue.
func TestServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "lngtest-") // a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "sock")
	stopped := exec.Command(os.Args[0])
	stopped.Env = append(os.Environ(), "LNGTEST_LISTEN="+socket)
	require.NoError(t, stopped.Start())
	t.Cleanup(func() {
		_ = stopped.Process.Kill()
		_ = stopped.Wait()
	})
	var ws unix.WaitStatus
	_, err = unix.Wait4(stopped.Process.Pid, &ws, unix.WUNTRACED, nil)
	require.NoError(t, err)
	ours, agents := mcp.NewInMemoryTransports()
	server, err := newServer(newDaemon(socket)).Connect(t.Context(), ours, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	agent, err := mcp.NewClient(&mcp.Implementation{Name: "lngtest"}, nil).Connect(t.Context(), agents, nil)
	require.NoError(t, err)
	tools, err := agent.ListTools(t.Context(), nil)
	require.NoError(t, err)
	reads := make(map[string]bool)
	for _, tool := range tools.Tools {
		reads[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	if want := map[string]bool{"list_running": true, "explain": true, "ports": true, "end_branch": false, "keep": false}; !maps.Equal(reads, want) {
		t.Errorf("tools %v, want %v", reads, want)
	}
	r, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "ports"})
	if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "continue without it") {
		t.Errorf("%v, %+v", err, r)
	}
}
