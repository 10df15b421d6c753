//go:build linux

package agents

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// What the calls of one round leave: a number of "sleep SECONDS". Those of 303 and 304 may be ambiguous.
var leave = map[int]int{301: 40, 302: 2, 303: 20, 304: 20, 305: 3}

// turns are the ends of the ids of these calls, which the model gives them.
var turns = map[int]string{301: "0_0", 302: "1_0", 303: "2_0", 304: "2_1", 305: "sub_0_0"}

// leaves is a command that returns when all are in their own sessions: codex ends what is still in the
// process group of a command.
func leaves(seconds int) string {
	return fmt.Sprintf("for n in $(seq %d); do setsid sh -c 'echo >>up.%d; exec sleep %d' </dev/null >/dev/null 2>&1 & done; until [ \"$(wc -l <up.%d)\" -ge %d ]; do sleep 0.1; done",
		leave[seconds], seconds, seconds, seconds, leave[seconds])
}

var token = regexp.MustCompile(`plan[\\\\": ]+([0-9a-f]{32})`)

// TestCallsEnded: what 40 background processes of one call, of parallel calls and of a subagent belong to is
// known or said to be ambiguous. The agent ends by MCP exactly what one call has left, and lives.
// LNGTEST_ROUNDS repeats it.
func TestCallsEnded(t *testing.T) {
	for _, a := range []*agent{claude, codex} {
		t.Run(a.name, func(t *testing.T) {
			a.path(t) // skips
			rounds, passed, ambiguous := stage.FromEnv(t, "LNGTEST_ROUNDS", 1), 0, 0
			for n := range rounds {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					ambiguous += endCalls(t, a)
					if !t.Failed() {
						passed++
					}
				})
			}
			t.Logf("figure: %s: in %d of %d rounds the agent ended exactly what one call had left; %d processes were ambiguous, of %d of parallel calls",
				a.name, passed, rounds, ambiguous, rounds*(leave[303]+leave[304]))
		})
	}
}

func endCalls(t *testing.T, a *agent) (ambiguous int) {
	x := newTrial(t, a, true)
	x.Daemon()
	x.servers["lineage"] = []string{stage.Lineage, "--socket", x.Socket, "mcp"}
	checked, ended := make(chan struct{}), make(chan struct{})
	target := "" // written before checked is closed
	end := model.Call{Tool: "mcp__lineage__end_branch"}
	subagent := model.Call{Tool: "Agent", Args: map[string]any{
		"description": "leave processes", "prompt": model.Subagent + ": leave some", "subagent_type": "general-purpose", "run_in_background": false}}
	prefix := "toolu_"
	if a == codex {
		prefix, end.Tool = "call_", "end_branch"
		subagent = model.Call{Tool: "spawn_agent", Args: map[string]any{"message": model.Subagent + ": leave some"}}
	}
	plan, act := end, end
	plan.ArgsOf = func(string) map[string]any { return map[string]any{"call": target} }
	act.ArgsOf = func(request string) map[string]any {
		args := map[string]any{"call": target}
		if found := token.FindStringSubmatch(request); found != nil {
			args["plan"] = found[1]
		}
		return args
	}
	script := []model.Turn{model.Run(leaves(301)), model.Run(leaves(302)), {Calls: []model.Call{{Command: leaves(303)}, {Command: leaves(304)}}}}
	want := map[int]int{302: 2, 303: 20, 304: 20, 305: 3}
	script = append(
		script,
		model.Turn{Calls: []model.Call{subagent}},
		model.Turn{Calls: []model.Call{plan}, Hold: checked},
		model.Turn{Calls: []model.Call{act}},
		model.Turn{Text: "done", Hold: ended},
	)
	x.script(script...)
	x.model.Sub(model.Run(leaves(305)), model.Say("left"))
	command := x.once("agent")
	x.setup(a.name, "--yes")
	p := x.exec(command)
	for seconds := range want {
		x.stay(fmt.Sprintf("sleep %d", seconds), want[seconds])
	}
	x.stay("sleep 301", 40)
	var d *api.Orphans
	x.Agrees("calls", func() (err error) {
		d = stage.Query[api.Orphans](x.Instance, "ls", "--calls")
		target, ambiguous, err = attributed(d, want, prefix)
		return err
	})
	close(checked)
	x.Until("end of what the call left", func() bool {
		if p.Exited() {
			t.Fatal(p)
		}
		return len(x.running("sleep 301")) == 0
	})
	for seconds, n := range want {
		if got := x.running(fmt.Sprintf("sleep %d", seconds)); len(got) != n {
			t.Errorf("%d of %d processes of another call live", len(got), n)
		}
	}
	if s := x.Session("agent"); s.State != api.StateActive || p.Exited() {
		t.Errorf("the agent: %v, %v", s.State, p)
	}
	close(ended)
	if p.Wait().Code() != 0 {
		t.Error(p)
	}
	x.bystander.MustBeUntouched()
	return ambiguous
}

// attributed fails unless the processes of each call are under their own call, and under others only if these were
// open at the same time: in parallel, or because a hook could not report the end. call is the one of 301, which
// nothing precedes; prefix is that of the ids.
func attributed(d *api.Orphans, want map[int]int, prefix string) (call string, ambiguous int, err error) {
	call = prefix + turns[301]
	found := map[int]int{}
	for _, c := range d.Calls {
		for _, run := range c.Commands {
			var seconds int
			if _, err := fmt.Sscanf(strings.Join(run.Argv, " "), "sleep %d", &seconds); err != nil {
				continue
			}
			own := slices.IndexFunc(c.Calls, func(x api.Call) bool { return x.ID == prefix+turns[seconds] })
			if own < 0 {
				return "", 0, fmt.Errorf("%d × sleep %d are under %s", run.Processes, seconds, display.CallNames(c.Calls))
			}
			for i, x := range c.Calls {
				if i != own && (seconds == 301 || x.Ended != nil && x.Ended.Before(*c.Calls[own].Began)) {
					return "", 0, fmt.Errorf("%d × sleep %d are ambiguous: %+v", run.Processes, seconds, c)
				}
			}
			if c.Ambiguous {
				ambiguous += run.Processes
			}
			found[seconds] += run.Processes
		}
	}
	for seconds, n := range want {
		if found[seconds] != n {
			return "", 0, fmt.Errorf("%d × sleep %d, want %d", found[seconds], seconds, n)
		}
	}
	if found[301] != leave[301] {
		return "", 0, fmt.Errorf("%d × sleep 301", found[301])
	}
	return call, ambiguous, nil
}
