package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A policy that refuses signals is worth a warning where the kernel cannot.
func TestPolicyCheckSignals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const ruled = "agents:\n  - {name: a, enabled: true, match: {comm: a}}\n"
	for text, warned := range map[string]bool{"mode: enforce\nsignals: session\n": true, "mode: enforce\nspare: root\n" + ruled: true, "mode: enforce\nspare: root\n": false, "signals: session\n": false, "mode: enforce\n": false} {
		require.NoError(t, os.WriteFile(file, []byte("version: 1\n"+text), 0o600))
		for _, can := range []bool{false, true} {
			w := newWorld(t, nil)
			w.app.host.unrefused = func() bool { return !can }
			code, _, stderr := w.run("policy", "check", file)
			if code != 0 || strings.Contains(stderr, "policy check: signals that leave a session, or are sent to a spared process, are only recorded: ") != (warned && !can) {
				t.Errorf("%q, %v: exit %d, %q", text, can, code, stderr)
			}
		}
	}
}

// Check needs no daemon. An expired keep rule keeps nothing, and is worth a warning.
func TestPolicyCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	for file, text := range map[string]string{
		"good.yaml": "version: 1\nmode: enforce\n",
		"bad.yaml":  "version: 1\ndefaults:\n  grase: 1s\n",
		"kept.yaml": "version: 1\ncontainers:\n  - {name: c, match: {container: x}}\n" +
			"keep:\n  - {name: cache, match: {exe: /bin/x}, reason: r, until: 2020-01-01}\n",
		"evil.yaml": "version: 1\n\"a\\e[31m\\u202eb\": x\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	var all strings.Builder
	for _, line := range []string{
		"policy check good.yaml", "policy check good.yaml -o json", "policy check good.yaml -o name",
		"policy check bad.yaml", "policy check bad.yaml -o json", "policy check bad.yaml -o name",
		"policy check kept.yaml", "policy check evil.yaml", "policy check evil.yaml -o jsonl",
		"policy check none.yaml", "policy check good.yaml bad.yaml", "policy check .",
		"policy", "policy chek", "policy show", "policy explain", "policy explain x", "policy explain 900", "policy resume",
	} {
		all.WriteString(newWorld(t, nil).record(strings.Fields(line)...) + "\n")
	}
	all.WriteString(newWorld(t, newFake()).record("policy", "explain", "900"))
	t.Chdir(home)
	golden(t, "policy check", all.String())
}

// home is the directory in which the tests started.
var home, _ = filepath.Abs(".")

func loadedPolicy() *api.Policy {
	return &api.Policy{
		File: "/etc/lineage/policy.yaml", Mode: "observe", Loaded: at(-60), Breaker: api.Breaker{Open: true, UIDs: []int{1000}},
		Refused:      `/etc/lineage/policy.yaml:3:3: unknown key "grase" in defaults; did you mean "grace"?`,
		NeedsRestart: []string{"daemon.level", "daemon.ring_size"},
		Items: []api.PolicyValue{
			{Key: "mode", Value: "enforce", Origin: "/etc/lineage/policy.yaml:3"},
			{Key: "defaults.grace", Value: "5s", Origin: "built-in"},
			{Key: "defaults.signals", Value: []any{"TERM"}, Origin: "built-in"},
			{
				Key:    "protect.db",
				Value:  map[string]any{"match": map[string]any{"exe": "/usr/lib/postgresql/*/bin/postgres"}, "name": "db", "reason": "\x1b[31m"},
				Origin: "/etc/lineage/policy.yaml:9",
			},
		},
	}
}

func explain(name string) (*api.PolicyExplain, error) {
	if name == "900" {
		return &api.PolicyExplain{Process: api.Process{Ref: ref(900), Comm: "cron", State: "live"}, Items: []api.PolicyRule{}}, nil
	}
	return &api.PolicyExplain{Process: live(4121, "sh", "-c", "make"), Items: []api.PolicyRule{
		{Rule: "protect.db", Reason: "production data", Origin: "/etc/lineage/policy.yaml:9", Effect: "nothing: a member is not shielded from its own session"},
		{Rule: "agents.make", Origin: "/etc/lineage/policy.yaml:4", Effect: "opened session k3x9q2, grace 5s"},
	}}, nil
}
