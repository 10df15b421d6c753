package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asProgram makes the test binary the program itself.
const asProgram = "LNGTEST_LINEAGE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// The program, main and its exit included: what works without a daemon, and the errors
// when one is needed.
func TestProgram(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	var all strings.Builder
	for _, line := range []string{
		"ls",
		"end some",
		"end --yes some",
		"nonsense",
		"tree -i testdata/recording.jsonl",
		"tree -i testdata/recording.jsonl --plain 30",
		"tree -i testdata/recording.jsonl -o name build0",
		"tree -i testdata/recording.jsonl 31@1",
		"tree -i testdata/tree.golden",
		"__complete end",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(line)...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "LINEAGE_SOCKET="+socket)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "$ lineage %s\n%s--- stderr\n%s--- exit %d\n\n", line, &stdout, &stderr, cmd.ProcessState.ExitCode())
	}
	golden(t, "program", strings.ReplaceAll(all.String(), socket, "SOCKET"))
}
