//go:build linux

package simulation

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// mutants are changes of the daemon, each of which takes a precaution away.
var mutants = []struct {
	what, file, with, without string
	hidden                    string // why the simulation does not notice
}{
	{
		"births that were missed do not count against a verdict", "enforcer/verdict.go",
		"case now > before:", "case false:", "",
	},
	{
		"members on the task list do not count against a verdict", "enforcer/verdict.go",
		"case len(r.Left) > 0:", "case false:", "this kernel has no member on the list that it does not count",
	},
	{
		"condemned members are signalled once", "enforcer/end.go",
		"return !x.swept || info.Live > 0", "return !x.swept", "the first look repeats its pass until nobody is left to signal; only a birth that is found after it needs another one",
	},
	{
		"no pass looks for dead roots", "enforcer/end.go",
		"case tracer.StateActive:\n\t\treturn !x.swept", "case tracer.StateActive:\n\t\treturn false", "",
	},
	{
		"what cannot be ended has no verdict", "enforcer/end.go",
		"if now-x.condemned >= e.patience() {", "if false {", "",
	},
	{
		"births that were missed are not looked for before the first signal", "enforcer/sweep.go",
		"if !missed && !unentered {", "if true {", "",
	},
	{
		"what is left is reported with each look", "daemon/registry/conclude.go",
		"if s.result == s.written && !empty {", "if false {", "",
	},
	{
		"a receipt does not wait for the deaths", "daemon/registry/conclude.go",
		"if empty && s.emptyAt == 0 && r.mayBeTold(s) {", "if false {", "",
	},
	{
		"the death of a root that a look finds ends nothing", "daemon/registry/sample.go",
		"(root && !s.info.KeepOnRootExit ||\n\t\t\tc.died(r.o.Kernel, s.info.Owner)) {", "false {", "",
	},
	{
		"lost events ask for no look", "daemon/registry/sample.go",
		`case more("events_lost", "listen_failed"):`, "case false:", "there is a look each second, or each 8 s while nothing happens: it comes later",
	},
	{
		"an end that a look finds is not watched", "daemon/registry/sample.go",
		"if s.info.State != tracer.StateActive || info.Live == 0 || over {", "if over {", "",
	},
	{
		"the next daemon reports what was reported", "daemon/history/restore.go",
		"if info.State != tracer.StateEmpty {", "if true {", "",
	},
	{
		"the next daemon remembers nothing of a session", "daemon/history/restore.go",
		"{ t.Remember(row.ID, row.State, nodes) }", "{}", "",
	},
	{
		"what procfs shows is not compared with the process", "daemon/attribution/evidence.go",
		"return x, err == nil && now == t.Identity", "return x, err == nil && now.PID > 0", "the kernel compares the identity again before it enters one",
	},
	{
		"any secret is evidence for any session", "daemon/attribution/evidence.go",
		"if c.token != x.marks.Token || c.token == (lookup.Sum{}) || !had", "if !had", "",
	},
	{
		"work for a session that is over is taken for it", "daemon/attribution/attribution.go",
		"if p.source.Strong() && a.ends(p) && !p.claimant.over {", "if p.source.Strong() && a.ends(p) {", "the kernel refuses to enter a process in a session that is over",
	},
	{
		"work does not end with its session", "daemon/attribution/attribution.go",
		"case its.For != 0 && a.over(v, its.For) && enough(policy.Brokers.End, !its.Weak),", "case its.For != 0 && enough(policy.Brokers.End, !its.Weak) && false,", "",
	},
}

// TestMutants: the simulation notices each of them, unless something else hides it. Without LNGTEST_MUTANTS
// only: each can still be made.
func TestMutants(t *testing.T) {
	const seeds = "400"
	for _, m := range mutants {
		t.Run(m.what, func(t *testing.T) {
			file, err := filepath.Abs("../../" + m.file)
			require.NoError(t, err)
			text := string(require.ReadFile(t, file))
			if strings.Count(text, m.with) != 1 {
				t.Fatalf("%s has it %d times: %s", m.file, strings.Count(text, m.with), m.with)
			}
			if os.Getenv("LNGTEST_MUTANTS") == "" {
				return
			}
			dir := t.TempDir()
			mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(text, m.with, m.without, 1)), 0o600))
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutant}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(overlay, replace, 0o600))
			cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay="+overlay, "-run=^TestSimulation$", ".")
			cmd.Env = append(os.Environ(), "LNGTEST_SEED=1", "LNGTEST_SEEDS="+seeds)
			switch out, err := cmd.CombinedOutput(); {
			case (err == nil) != (m.hidden != ""):
				t.Errorf("noticed in %s seeds: %v, hidden: %q", seeds, err != nil, m.hidden)
			case err == nil:
			case !bytes.Contains(out, []byte("LNGTEST_SEED=")):
				t.Fatalf("%v: %s", err, out)
			default:
				first, _, _ := strings.Cut(string(out[bytes.Index(out, []byte("LNGTEST_SEED=")):]), ", after:")
				t.Log(first)
			}
		})
	}
}
