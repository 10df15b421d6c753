package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// program runs the program, with variables besides ours.
func program(t *testing.T, args []string, env ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = slices.Concat(os.Environ(), []string{asProgram + "=1"}, env)
	var out, err strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run() // its exit code says it
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// The program, main and its exit included: what works without a daemon, and the errors
// when one is needed.
func TestProgram(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	var all strings.Builder
	for _, line := range []string{
		"ls", "end some", "end --yes some", "nonsense", "__complete end",
	} {
		stdout, stderr, code := program(t, strings.Fields(line), "LINEAGE_SOCKET="+socket)
		fmt.Fprintf(&all, "$ lineage %s\n%s--- stderr\n%s--- exit %d\n\n", line, stdout, stderr, code)
	}
	golden(t, "program", strings.ReplaceAll(all.String(), socket, "SOCKET"))
}
