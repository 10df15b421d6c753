//go:build linux

package service

import (
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLog: people get lines of text, programs JSON.
func TestLog(t *testing.T) {
	master, tty, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	defer tty.Close()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	line := func(from, to *os.File) string {
		log := logTo(to, true)
		log.Warn().Str("sink", "x").Msg("no answer")
		b := make([]byte, 4096)
		n, err := from.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	require.Contains(t, line(master, tty), " WRN no answer sink=x")
	if text := line(read, write); !strings.HasPrefix(text, `{"level":"warn","sink":"x"`) {
		t.Errorf("in a pipe: %q", text)
	}
}
