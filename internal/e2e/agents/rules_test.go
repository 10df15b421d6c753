//go:build linux

package agents

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// shipped is a rule of packaging/agents.yaml, switched on, for this copy of the agent only.
func (x *trial) shipped(rule string) (policy string) {
	x.T.Helper()
	var file struct {
		Agents []map[string]any
	}
	text, err := os.ReadFile("../../../packaging/agents.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	require.NoError(x.T, err)
	i := slices.IndexFunc(file.Agents, func(r map[string]any) bool { return r["name"] == rule })
	if i < 0 {
		x.T.Fatalf("no rule %s is shipped", rule)
	}
	r := file.Agents[i]
	r["enabled"], r["grace"] = true, "1s"
	match := r["match"].(map[string]any)
	if match["argv"] != nil || match["exe"] != nil {
		x.T.Fatalf("rule %s is narrow already: %v", rule, match)
	}
	match["argv"] = "^" + regexp.QuoteMeta(x.bin) + "$"
	out, err := yaml.Marshal(map[string]any{"mode": "enforce", "agents": []any{r}})
	require.NoError(x.T, err)
	return x.Policy(string(out))
}

// ruled waits for the one session of a rule, and ends its root.
func (x *trial) ruled(rule string, root func(*api.Session)) {
	x.T.Helper()
	var found []api.Session
	x.Until("session of "+rule, func() bool {
		found = slices.DeleteFunc(stage.Query[api.Sessions](x.Instance, "ls").Items, func(s api.Session) bool { return s.Rule != rule })
		return len(found) > 0
	})
	if len(found) != 1 || found[0].Root == nil {
		x.T.Fatalf("%+v", found)
	}
	root(&found[0])
	x.kill(found[0].Root.PID)
	if r := x.Receipt(found[0].ID); r.Verdict != api.VerdictClean || named(*r, "sleep 300") != 1 {
		x.T.Errorf("%s (%s): %+v", r.Verdict, r.VerdictWhy, r.Processes)
	}
	x.bystander.MustBeUntouched()
}

// The shipped rules find each agent by its command's name, and the session has what the
// agent starts.
func TestRules(t *testing.T) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			a.path(t) // skips
			x := newTrial(t, a, false)
			x.Daemon("--policy", x.shipped(a.name))
			x.script(model.Run(apart("sleep 300")), model.Run("echo waiting >"+x.m.Path+"; exec sleep 299"))
			p := x.start("")
			x.m.Line("waiting", 1)
			x.ruled(a.name, func(s *api.Session) {
				if s.Root.PID != p.Process.Pid {
					t.Errorf("the root is %d, want %d", s.Root.PID, p.Process.Pid)
				}
			})
			x.Until("end of all", func() bool { return len(x.alive()) == 0 })
		})
	}
}

// If a service is a script, its task is a session, and the service is not.
func TestWorkerTask(t *testing.T) {
	claude.path(t) // skips
	x := newTrial(t, claude, false)
	x.Daemon("--policy", x.shipped("worker-task"))
	x.file("worker-service.cjs", `require("child_process").spawn(process.argv[3], process.argv.slice(4), {stdio: "ignore"});
setTimeout(() => process.exit(), 300000);
`)
	x.script(model.Run(apart("sleep 300")), model.Run("echo waiting >"+x.m.Path+"; exec sleep 299"))
	service := x.exec(x.command("", nil, append([]string{"node", "worker-service.cjs", "--daemon", x.bin}, claude.once("do it")...)...))
	x.m.Line("waiting", 1)
	x.ruled("worker-task", func(s *api.Session) {
		if parent := parentOf(s.Root.PID); parent != service.Process.Pid {
			t.Errorf("the root's parent is %d, want the service %d", parent, service.Process.Pid)
		}
	})
	if left := x.alive(); len(left) != 1 || left[service.Process.Pid] == "" {
		t.Errorf("alive: %v, want the service", left)
	}
}
