//go:build linux

package run_test

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/run"
)

// These tests run without lineage, so that the guarantee is the process group. The
// other guarantees are tested in internal/e2e/library.
func command(ctx context.Context, script string) *run.Cmd {
	cmd := run.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Lineage, cmd.Grace = "/no/such/lineage", time.Second
	return cmd
}

func TestOutput(t *testing.T) {
	cmd := command(t.Context(), "echo out; echo err >&2; exit 7")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || string(exit.Stderr) != "err\n" || string(out) != "out\n" {
		t.Errorf("output %q, error %v", out, err)
	}
	if g := cmd.Guarantee(); g != run.Group {
		t.Errorf("guarantee %v", g)
	}
	if r := cmd.Report(); r == nil || r.Verdict != api.VerdictUnknown || r.VerdictWhy == "" {
		t.Errorf("report: %+v", r)
	}
	if both, err := command(t.Context(), "echo out; echo err >&2").CombinedOutput(); err != nil || string(both) != "out\nerr\n" {
		t.Errorf("combined output %q, error %v", both, err)
	}
}

// TestGrandchildHoldsPipe: os/exec would wait until sleep has exited.
func TestGrandchildHoldsPipe(t *testing.T) {
	began := time.Now()
	out, err := command(t.Context(), "sleep 30 & echo started").Output()
	if err != nil || string(out) != "started\n" {
		t.Errorf("output %q, error %v", out, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("returned after %v", took)
	}
}

// TestContextEndsGroup: a shell and a child that both ignore SIGTERM.
func TestContextEndsGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(ctx, "trap '' TERM; echo deaf; sleep 30; sleep 30")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("%q, %v", line, err)
	}
	began := time.Now()
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took < time.Second || took > 10*time.Second {
		t.Errorf("returned after %v, want the grace and little more", took)
	}
}

func TestRequire(t *testing.T) {
	cmd := command(t.Context(), "exit 0")
	cmd.Require = run.Subreaper
	var less *run.GuaranteeError
	if err := cmd.Run(); !errors.As(err, &less) || less.Have != run.Group || less.Why == "" {
		t.Errorf("run: %v", err)
	}
	if cmd.Process != nil {
		t.Error("it was started")
	}
}

func TestStartErrors(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	cancelled := run.Command("true")
	cancelled.Cancel = func() error { return nil }
	twice := command(t.Context(), "exit 0")
	if err := twice.Run(); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		cmd  *run.Cmd
		want string
	}{
		"context is done": {command(done, "exit 0"), "context canceled"},
		"not found":       {run.Command("lineage-no-such-program"), "executable file not found"},
		"Cancel":          {cancelled, "Cancel is set"},
		"twice":           {twice, "already started"},
	} {
		if err := tt.cmd.Start(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", what, err, tt.want)
		}
	}
	if err := run.Command("true").Wait(); err == nil {
		t.Error("wait without start: no error")
	}
}
