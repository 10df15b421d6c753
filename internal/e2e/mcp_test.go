//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// An agent is an MCP client whose server is a member of a session.
type agent struct {
	t *testing.T
	*mcp.ClientSession
}

// serve connects to a server that a command starts.
func serve(t *testing.T, cmd *exec.Cmd) *agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stage.Patience)
	defer cancel()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "lngtest"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &agent{t, c}
}

// found is the structured part of an answer.
type found struct {
	Items []struct {
		Process, Command, Outcome string
		Ports, Steps              []string
	}
	Notes         []string
	More          int
	Plan, Verdict string
}

// maxAnswer is the largest answer, in bytes.
const maxAnswer = 8 << 10

// call calls a tool, and returns its text and its structured part.
func (a *agent) call(tool string, args map[string]any) (text string, f found, failed bool) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), stage.Patience)
	defer cancel()
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, args, err)
	}
	whole, err := json.Marshal(r)
	if err != nil || len(whole) > maxAnswer {
		a.t.Errorf("%s %v: an answer of %d bytes (%v)", tool, args, len(whole), err)
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	if b, err := json.Marshal(r.StructuredContent); err != nil || json.Unmarshal(b, &f) != nil {
		a.t.Errorf("%s: structured: %s", tool, b)
	}
	return text, f, r.IsError
}

// fails calls a tool that must refuse, with the wanted reason.
func (a *agent) fails(tool string, args map[string]any, want string) {
	a.t.Helper()
	if text, _, failed := a.call(tool, args); !failed || !strings.Contains(text, want) {
		a.t.Errorf("%s %v: %q, want %q", tool, args, text, want)
	}
}

// serveIn serves in a session of that name, beside a program and its sibling.
func serveIn(i *stage.Instance, name string, program, sibling *stage.Marker, words ...string) *agent {
	i.T.Helper()
	script := `LNGTEST_MARKER="$1" "$2" setsid </dev/null >/dev/null & m="$3"; lineage="$4"; shift 4
		LNGTEST_MARKER="$m" "$@" </dev/null >/dev/null & exec "$lineage" mcp`
	args := append([]string{"run", "--name", name, "--grace", "0s", "--", "sh", "-c", script, "sh",
		sibling.Path, stage.Program("detach"), program.Path, stage.Lineage, stage.Program(words[0])}, words[1:]...)
	a := serve(i.T, i.Command(args, []string{"LNGTEST_SECONDS=60", "XDG_RUNTIME_DIR="}))
	sibling.Members(1)
	program.Ready()
	return a
}

// process finds PID@START of the oldest process that runs a program.
func (a *agent) process(program string) string {
	a.t.Helper()
	text, f, _ := a.call("list_running", nil)
	for _, x := range f.Items {
		if strings.HasPrefix(x.Command, stage.Program(program)) {
			return x.Process
		}
	}
	a.t.Fatalf("no %s in %s", program, text)
	return ""
}

// What an agent may request, and what is refused.
func TestMCP(t *testing.T) {
	i := stage.NewDaemon(t)
	other := stage.NewMarker(t, i.Dir)
	i.Start([]string{"run", "--name", "other", "--", stage.Program("detach"), "password"}, other.Env())
	other.Ready()
	secret := i.Session("other").Root.Ref.String()
	program, sibling := stage.NewMarker(t, i.Dir), stage.NewMarker(t, i.Dir)
	a := serveIn(i, "agent", program, sibling, "port", "0")

	tools, err := a.ListTools(t.Context(), nil)
	require.NoError(t, err)
	hints := map[string]bool{}
	for _, tool := range tools.Tools {
		hints[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	for name, reads := range map[string]bool{"list_running": true, "explain": true, "ports": true, "end_branch": false, "keep": false} {
		if got, there := hints[name]; !there || got != reads || len(hints) != 5 {
			t.Errorf("%s: there %v, reads only %v", name, there, got)
		}
	}

	text, f, _ := a.call("ports", nil)
	if len(f.Items) != 1 || len(f.Items[0].Ports) != 1 || !strings.Contains(text, f.Items[0].Ports[0]) {
		t.Fatalf("ports: %s", text)
	}
	listener := f.Items[0].Process
	number, err := strconv.Atoi(regexp.MustCompile(`\d+$`).FindString(f.Items[0].Ports[0]))
	require.NoError(t, err)
	for _, q := range []map[string]any{{"process": listener}, {"port": number}} {
		text, f, failed := a.call("explain", q)
		if failed || !strings.Contains(text, "root of the session") || !strings.Contains(text, listener) {
			t.Errorf("explain %v: %s", q, text)
		}
		if len(f.Items) != 1 || len(f.Items[0].Steps) < 2 || !strings.Contains(text, f.Items[0].Steps[0]) ||
			q["port"] != nil && !strings.Contains(strings.Join(f.Notes, " "), strconv.Itoa(number)) {
			t.Errorf("explain %v: %+v", q, f)
		}
	}
	root := i.Session("agent").Root.Ref.String()
	a.fails("explain", map[string]any{"process": secret}, "not permitted")
	a.fails("explain", map[string]any{}, "one of process, port and path")
	a.fails("end_branch", map[string]any{"process": secret}, "not permitted")
	a.fails("end_branch", map[string]any{"process": root}, "root of session")
	a.fails("end_branch", map[string]any{"process": root, "plan": "x"}, "root of session")
	a.fails("end_branch", map[string]any{"process": listener, "plan": "x"}, "unknown")
	a.fails("keep", map[string]any{"process": listener, "reason": "preview"}, stage.Program("port"))
	a.fails("keep", map[string]any{"process": secret, "reason": "preview"}, "not permitted")
	for _, tool := range []string{"list_running", "ports"} {
		if text, _, _ := a.call(tool, nil); strings.Contains(text, "password") {
			t.Errorf("%s shows another session: %s", tool, text)
		}
	}

	of := a.process("port") // its parent
	text, f, failed := a.call("end_branch", map[string]any{"process": of})
	if failed || f.Plan == "" || !strings.Contains(text, "nothing was sent") || !program.Drain() {
		t.Fatalf("plan: %s", text)
	}
	text, f, failed = a.call("end_branch", map[string]any{"process": of, "plan": f.Plan})
	program.MustBeGone()
	if failed || f.Verdict != "clean" || !strings.Contains(text, listener) {
		t.Errorf("end: %s", text)
	}
	if !sibling.Drain() || !other.Drain() {
		t.Error("the sibling or another session is dead")
	}
	i.End("--now", "agent", "other")
}

// Without a daemon, or while it is stopped, the agent continues, and a later call is answered.
func TestMCPWithoutDaemon(t *testing.T) {
	i := stage.New(t)
	a := serve(t, i.Command([]string{"mcp"}, nil))
	a.fails("list_running", nil, "continue without it")
	d := i.Daemon()
	require.NoError(t, d.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = d.Process.Signal(syscall.SIGCONT) })
	a.fails("list_running", nil, "continue without it")
	require.NoError(t, d.Process.Signal(syscall.SIGCONT))
	i.Until("daemon that answers", func() bool { return i.Version() != nil })
	a.fails("list_running", nil, "not in a lineage session")
}
