//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

const instructions = "What you started and what is still running, even if its parent is dead: list_running and ports before you finish. " +
	"end_branch ends one process with everything it ever started: call it without a plan first, read the plan, then call it again with its token."

// endWait limits the wait for the receipt of an end.
const endWait = 30 * time.Second

func newServer(d *daemon) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "lineage", Title: "lineage", Version: version}, &mcp.ServerOptions{Instructions: instructions})
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	add(s, d, &mcp.Tool{Name: "list_running", Annotations: reads,
		Description: "List the live processes of this session: everything that this agent started and that is still running. Changes nothing."}, listRunning)
	add(s, d, &mcp.Tool{Name: "explain", Annotations: reads,
		Description: "Explain who started a process, or who listens on a port or holds a file, through parents that are dead. Changes nothing."}, explain)
	add(s, d, &mcp.Tool{Name: "ports", Annotations: reads,
		Description: "List the ports that processes of this session listen on. Changes nothing."}, ports)
	add(s, d, &mcp.Tool{Name: "end_branch", Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(false)},
		Description: "End one process of this session and everything that it ever started. Without a plan it only shows the plan, with its token; with the token it ends them. Never ends this agent."}, endBranch)
	add(s, d, &mcp.Tool{Name: "keep", Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
		Description: "Let a process outlive this session, if a keep rule of the host's policy allows it; else the answer says which rule is missing."}, keep)
	return s
}

// add adds a tool that asks the daemon. An error becomes an answer to the agent, with
// IsError, and never ends the server.
func add[In any](s *mcp.Server, d *daemon, t *mcp.Tool, tool func(context.Context, api.Client, string, In) (string, *answer, error)) {
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, *answer, error) {
		var text string
		out := &answer{}
		err := d.ask(ctx, func(c api.Client, session string) (err error) {
			text, out, err = tool(ctx, c, session, in)
			return err
		})
		if err != nil {
			return nil, nil, errors.New(strings.TrimSpace(lines(display.Text(err.Error()))))
		}
		out.fit()
		if out.Items == nil {
			out.Items = []item{}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, out, nil
	})
}

type nothing struct{}

func listRunning(ctx context.Context, c api.Client, session string, _ nothing) (string, *answer, error) {
	tree, err := c.Tree(ctx, session, "ancestors")
	if err != nil {
		return "", nil, err
	}
	out := &answer{}
	for i := range tree.Nodes {
		if n := &tree.Nodes[i]; n.State == api.StateLive {
			out.Items = append(out.Items, processItem(&n.Process))
		}
	}
	head := fmt.Sprintf("session %s: %s", session, display.Count(len(out.Items), "live process", "live processes"))
	return lines(append([]string{head}, itemLines(out.Items)...)...), out, nil
}

type question struct {
	Process string `json:"process,omitempty" jsonschema:"PID or PID@START"`
	Port    int    `json:"port,omitempty" jsonschema:"a TCP port"`
	Path    string `json:"path,omitempty" jsonschema:"an absolute path of a file or lock"`
}

func explain(ctx context.Context, c api.Client, _ string, q question) (string, *answer, error) {
	var all []api.Why
	var hidden int
	var err error
	var holders *api.Holders
	switch {
	case q.Process != "" && q.Port == 0 && q.Path == "":
		var why *api.Why
		if why, err = c.Why(ctx, q.Process); err == nil {
			all = []api.Why{*why}
		}
	case q.Port != 0 && q.Process == "" && q.Path == "":
		holders, err = c.WhyPort(ctx, "tcp", q.Port)
	case q.Path != "" && q.Process == "" && q.Port == 0:
		holders, err = c.WhyPath(ctx, api.PathRef{Path: q.Path})
	default:
		err = errors.New("explain: give one of process, port and path")
	}
	if err != nil {
		return "", nil, err
	}
	if holders != nil {
		all, hidden = holders.Items, holders.Hidden
	}
	out := &answer{}
	var text []string
	for i := range all {
		w := &all[i]
		x := processItem(&w.Process)
		out.Items = append(out.Items, x)
		text = append(text, x.line())
		for j := range w.Edges {
			text = append(text, "  "+step(&w.Edges[j]))
		}
	}
	if hidden > 0 {
		text = append(text, fmt.Sprintf("%s outside this session: not yours to know or end", display.Count(hidden, "holder", "holders")))
	}
	return lines(text...), out, nil
}

// step says how a process was started.
func step(e *api.Edge) string {
	switch {
	case e.Kind == "root":
		return fmt.Sprintf("%d is the root of the session", e.Child.PID)
	case e.Creator == nil:
		return fmt.Sprintf("%d: it is not known who started it", e.Child.PID)
	}
	state := ""
	if !e.Creator.Alive {
		state = ", which has exited"
	}
	return fmt.Sprintf("%d was started by %s %s%s", e.Child.PID, e.Creator.Ref, display.Command(e.Creator.Argv, e.Creator.Comm, false, commandBytes), state)
}

func ports(ctx context.Context, c api.Client, session string, _ nothing) (string, *answer, error) {
	plan, err := c.Plan(ctx, session) // it sends no signals, and says what each process holds
	if err != nil {
		return "", nil, err
	}
	out := &answer{}
	for i := range plan.Processes {
		p := &plan.Processes[i]
		x := processItem(&p.Process)
		for j := range p.Ports {
			x.Ports = append(x.Ports, port(&p.Ports[j]))
		}
		if len(x.Ports) > 0 {
			out.Items = append(out.Items, x)
		}
	}
	head := fmt.Sprintf("session %s: %s", session, display.Count(len(out.Items), "process listens", "processes listen"))
	text := append([]string{head}, itemLines(out.Items)...)
	for _, u := range plan.Unknown {
		text = append(text, "not known: "+display.Text(u))
	}
	return lines(text...), out, nil
}

type ending struct {
	Process string `json:"process" jsonschema:"PID@START of list_running, explain or ports"`
	Plan    string `json:"plan,omitempty" jsonschema:"the token of the plan; without it the plan is only shown"`
}

func endBranch(ctx context.Context, c api.Client, _ string, e ending) (string, *answer, error) {
	if e.Plan == "" {
		return planBranch(ctx, c, e.Process)
	}
	report, err := c.EndBranch(ctx, e.Process, api.EndRequest{PlanToken: e.Plan})
	if err != nil {
		return "", nil, err
	}
	out := &answer{}
	var text []string
	for _, id := range append([]string{report.Session}, report.Also...) {
		r, err := c.Report(ctx, id, endWait)
		if err != nil {
			return "", nil, fmt.Errorf("the end has begun, its receipt is not there yet: %w", err)
		}
		verdict := string(r.Verdict)
		if verdict == "" {
			verdict = "not over yet"
		}
		if out.Verdict == "" || r.Verdict != api.VerdictClean {
			out.Verdict = verdict
		}
		text = append(text, strings.TrimSpace(fmt.Sprintf("verdict: %s %s", verdict, display.Text(r.VerdictWhy))))
		for i := range r.Processes {
			o := &r.Processes[i]
			x := item{Process: o.Ref.String(), Command: display.Command(o.Argv, o.Comm, false, commandBytes), Outcome: string(o.Outcome), Why: display.Text(o.Why)}
			out.Items = append(out.Items, x)
			text = append(text, x.line())
		}
	}
	return lines(text...), out, nil
}

func planBranch(ctx context.Context, c api.Client, process string) (string, *answer, error) {
	plan, err := c.PlanBranch(ctx, process)
	if err != nil {
		return "", nil, err
	}
	if plan.RefusedBy != "" {
		return "", nil, errors.New("it would be refused: " + plan.RefusedBy)
	}
	out := &answer{Plan: plan.Token}
	for i := range plan.Processes {
		p := &plan.Processes[i]
		x := processItem(&p.Process)
		x.Why, x.Killable = display.Text(p.Why), &p.Killable
		for j := range p.Ports {
			x.Ports = append(x.Ports, port(&p.Ports[j]))
		}
		out.Items = append(out.Items, x)
	}
	head := fmt.Sprintf("%s would be ended; nothing was sent. To end them: end_branch with plan %q", display.Count(len(out.Items), "process", "processes"), plan.Token)
	return lines(append([]string{head}, itemLines(out.Items)...)...), out, nil
}

type keeping struct {
	Process string `json:"process" jsonschema:"PID@START of list_running, explain or ports"`
	Reason  string `json:"reason" jsonschema:"why, for people who find it later"`
}

func keep(ctx context.Context, c api.Client, _ string, k keeping) (string, *answer, error) {
	ref, err := api.ParseRef(k.Process)
	if err != nil {
		return "", nil, err
	}
	// A rule decides how long it is kept; only operators' requests use this time.
	s, err := c.Keep(ctx, api.KeepRequest{Refs: []api.Ref{ref}, Reason: k.Reason, Until: time.Now().Add(time.Hour)})
	if err != nil {
		return "", nil, err
	}
	until := ""
	if s.Until != nil {
		until = " until " + s.Until.UTC().Format(time.RFC3339)
	}
	return lines(fmt.Sprintf("kept%s in session %s, by the policy's rule %s", until, s.ID, display.Text(s.KeepRule))), &answer{}, nil
}
