//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A policy is refused at the start, accepted, kept when the file becomes invalid, and
// in force in the kernel.
func TestPolicy(t *testing.T) {
	i := stage.New(t)
	const mistake = `unknown key "grase" in defaults; did you mean "grace"?`
	file := i.Policy("mode: enforce\ndefaults:\n  grase: 200ms\n")
	if p := i.Lineage("policy", "check", file); p.Code() != api.ExitFailed || p.Err.String() != file+":4:3: "+mistake+"\n" {
		t.Errorf("%v", p)
	}
	if p := i.Lineage("daemon", "--policy", file); p.Code() != api.ExitFailed || p.Err.String() != "lineage: "+file+":4:3: "+mistake+"\n" {
		t.Errorf("%v", p)
	}

	i.Policy("mode: enforce\ndefaults:\n  grace: 200ms\n  max_processes: 10\n")
	daemon := i.Daemon("--policy", file)
	m := stage.NewMarker(t, i.Dir)
	receipt := filepath.Join(i.Dir, "report.json")
	run := i.Run(m, []string{"--report", receipt}, "bomb", "60")
	m.Gone()
	run.Wait()
	if r := stage.Report(t, receipt); r.EndReason != "max_processes" || r.Verdict != "clean" {
		t.Errorf("end_reason %q, verdict %q (%s)", r.EndReason, r.Verdict, r.VerdictWhy)
	}

	i.Policy("mode: observe\ndefaults: {grase: 1s}\n")
	reload := func() {
		t.Helper()
		require.NoError(t, daemon.Process.Signal(unix.SIGHUP))
	}
	reload()
	i.Until("word of the mistake", func() bool { return strings.Contains(strings.Join(i.Status().Degraded, "\n"), mistake) })
	show := func() *api.Policy { return stage.Query[api.Policy](i, "policy", "show") }
	if p := show(); p.Mode != "enforce" || !strings.HasSuffix(p.Refused, mistake) {
		t.Errorf("mode %s, refused %q", p.Mode, p.Refused)
	}
	i.Policy("defaults: {grace: 1s}\n")
	reload()
	i.Until("policy that is taken", func() bool { return show().Mode == "observe" })
	if p := show(); p.Refused != "" {
		t.Errorf("refused %q", p.Refused)
	}
	for _, v := range show().Items {
		if v.Key == "defaults.grace" && (v.Value != "1s" || v.Origin != file+":2") {
			t.Errorf("grace %v from %s", v.Value, v.Origin)
		}
	}

	// Only root may change it, and no member.
	p := i.Start([]string{"run", "--", stage.Lineage, "policy", "resume"}, nil).Wait()
	if p.Code() != api.ExitDenied || !strings.Contains(p.Err.String(), "run it from outside the session") {
		t.Errorf("%v", p)
	}
	i.Must("policy", "resume")
}
