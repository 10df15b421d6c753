//go:build linux

package agents

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		os.Exit(roles[os.Args[1]](os.Args[2:]))
	}
	stage.Begin("test-agents", "../../..")
	stage.Patience = require.Slowed(2 * time.Minute) // an agent is 400 MB of program, read from disk
	code := m.Run()
	if err := writeTable(); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		code = 1
	}
	os.Exit(code)
}
