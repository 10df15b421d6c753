//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

const instructions = "What you started and what is still running, even if its parent is dead: " +
	"list_running and ports before you finish. " +
	"end_branch ends one process with everything it ever started, or all that one tool call left: " +
	"call it without a plan first, read the plan, then call it again with its token."

const endWait = 30 * time.Second

func newServer(d *daemon) *mcp.Server {
	this := &mcp.Implementation{Name: "lineage", Title: "lineage", Version: version}
	s := mcp.NewServer(this, &mcp.ServerOptions{Instructions: instructions})
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	add(s, d, &mcp.Tool{
		Name:        "list_running",
		Annotations: reads,
		Description: "List the live processes of this session: " +
			"everything that this agent started and that is still running, " +
			"and a sum for each tool call. Of equal processes only the one that is idle longest is listed. Changes nothing.",
	}, listRunning)
	add(s, d, &mcp.Tool{Name: "explain", Annotations: reads,
		Description: "Explain who started a process, or who listens on a port or holds a file, through parents that are dead. Changes nothing."}, explain)
	add(s, d, &mcp.Tool{Name: "ports", Annotations: reads,
		Description: "List the ports that processes of this session listen on. Changes nothing."}, ports)
	add(s, d, &mcp.Tool{
		Name:        "end_branch",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(false)},
		Description: "End one process of this session and everything that it ever started, or everything that one tool call started. " +
			"Without a plan it only shows the plan, with its token; with the token it ends them. Never ends this agent.",
	}, endBranch)
	add(s, d, &mcp.Tool{
		Name:        "keep",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
		Description: "Let a process outlive this session, if a keep rule of the host's policy allows it; " +
			"else the answer says which rule is missing.",
	}, keep)
	return s
}

// add adds a tool that asks the daemon. An error becomes an answer to the agent, with
// IsError, and never ends the server.
func add[In any](s *mcp.Server, d *daemon, t *mcp.Tool,
	tool func(context.Context, api.Client, string, In) (*answer, error)) {
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, *answer, error) {
		out := &answer{}
		err := d.ask(ctx, func(c api.Client, session string) (err error) {
			out, err = tool(ctx, c, session, in)
			return err
		})
		if err != nil {
			return nil, nil, errors.New(strings.Join(within([]string{display.Error(err)}, textBytes), ""))
		}
		out.fit()
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.text()}}}, out, nil
	})
}

type nothing struct{}

func listRunning(ctx context.Context, c api.Client, session string, _ nothing) (*answer, error) {
	tree, err := c.Tree(ctx, session, "ancestors")
	if err != nil {
		return nil, err
	}
	left, err := c.Orphans(ctx, session)
	if err != nil {
		return nil, err
	}
	out := &answer{}
	for i := range left.Calls {
		out.Calls = append(out.Calls, callOf(&left.Calls[i]))
	}
	equal := make(map[api.Ref]string)
	omitted := make(map[api.Ref]bool) // those equal to a listed one, with their descendants
	for _, g := range tree.Equal() {
		for _, p := range g.Processes {
			omitted[p.Ref] = p != g.Processes[0]
		}
		equal[g.Processes[0].Ref] = fmt.Sprintf("one of %d equal ones, idle for %s: it may have a client",
			len(g.Processes), display.Age(time.Since(*cmp.Or(g.Processes[0].Busy, &time.Time{}))))
	}
	live := 0
	for i := range tree.Nodes { // a creator comes before what it started
		n := &tree.Nodes[i]
		if n.Creator != nil && omitted[*n.Creator] {
			omitted[n.Ref] = true
		}
		if n.State != api.StateLive {
			continue
		}
		if live++; omitted[n.Ref] {
			continue
		}
		x := processItem(&n.Process)
		x.Call, x.Why = display.CallNames(n.Calls), equal[n.Ref]
		out.Items = append(out.Items, x)
	}
	out.note("session %s: %s", session, display.Count(live, "live process", "live processes"))
	return out, nil
}

func callOf(c *api.CallLeft) callItem {
	took, _ := display.Took(c.Calls)
	return callItem{Call: display.CallNames(c.Calls), Ambiguous: c.Ambiguous,
		Open: took == "open", Processes: c.Processes, CPUs: c.CPUs,
		RSSBytes: c.RSSBytes, Ports: c.Ports[:min(len(c.Ports), callPorts)], Left: display.Left(c,
			time.Now(), callCommand)}
}

type question struct {
	Process string `json:"process,omitempty" jsonschema:"PID or PID@START"`
	Port    int    `json:"port,omitempty" jsonschema:"a TCP port"`
	Path    string `json:"path,omitempty" jsonschema:"an absolute path of a file or lock"`
}

func explain(ctx context.Context, c api.Client, _ string, q question) (*answer, error) {
	out := &answer{}
	var all []api.Why
	var err error
	var holders *api.Holders
	switch {
	case q.Process != "" && q.Port == 0 && q.Path == "":
		var why *api.Why
		if why, err = c.Why(ctx, q.Process); err == nil {
			all = []api.Why{*why}
		}
	case q.Port != 0 && q.Process == "" && q.Path == "":
		if holders, err = c.WhyPort(ctx, "tcp", q.Port); err == nil {
			n := display.Count(len(holders.Items), "process of this session listens",
				"processes of this session listen")
			out.note("tcp port %d: %s", q.Port, n)
		}
	case q.Path != "" && q.Process == "" && q.Port == 0:
		if holders, err = c.WhyPath(ctx, api.PathRef{Path: q.Path}); err == nil {
			out.note(
				"%s: %s",
				display.Text(q.Path),
				display.Count(len(holders.Items), "process of this session has it open or locked",
					"processes of this session have it open or locked"),
			)
		}
	default:
		err = errors.New("explain: give one of process, port and path")
	}
	if err != nil {
		return nil, err
	}
	if holders != nil {
		all = holders.Items
		if n := holders.Hidden; n > 0 {
			out.note("%s outside this session: not yours to know or end",
				display.Count(n, "holder", "holders"))
		}
		out.unknown(holders.Unknown)
	}
	for i := range all {
		w := &all[i]
		x := processItem(&w.Process)
		x.Call = display.Calls(w.Process.Calls)
		if w.Holds != nil {
			x.Ports = portsOf(w.Holds.Ports)
		}
		for j := range w.Edges {
			x.Steps = append(x.Steps, step(&w.Edges[j]))
		}
		x.Steps = within(x.Steps, stepBytes)
		out.Items = append(out.Items, x)
	}
	return out, nil
}

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
	return fmt.Sprintf(
		"%d was started by %s %s%s",
		e.Child.PID,
		e.Creator.Ref,
		display.Command(api.Unwrapped(e.Creator.Argv), e.Creator.Comm, false, stepCommand),
		state,
	)
}

func ports(ctx context.Context, c api.Client, session string, _ nothing) (*answer, error) {
	plan, err := c.Plan(ctx, session) // it sends no signals, and says what each process holds
	if err != nil {
		return nil, err
	}
	out := &answer{}
	for i := range plan.Processes {
		p := &plan.Processes[i]
		x := processItem(&p.Process)
		if x.Ports = portsOf(p.Ports); len(x.Ports) > 0 {
			out.Items = append(out.Items, x)
		}
	}
	out.note("session %s: %s", session, display.Count(len(out.Items),
		"process listens", "processes listen"))
	out.unknown(plan.Unknown)
	return out, nil
}

type ending struct {
	Process string `json:"process,omitempty" jsonschema:"PID@START of list_running, explain or ports"`
	Call    string `json:"call,omitempty" jsonschema:"instead of a process: the id of a tool call of list_running"`
	Plan    string `json:"plan,omitempty" jsonschema:"the token of the plan; without it the plan is only shown"`
}

func endBranch(ctx context.Context, c api.Client, session string, e ending) (*answer, error) {
	switch {
	case (e.Process == "") == (e.Call == ""):
		return nil, errors.New("end_branch: give one of process and call")
	case e.Call != "":
		left, err := c.Orphans(ctx, session)
		if err != nil {
			return nil, err
		}
		agent, err := left.AgentOf(e.Call)
		if err != nil {
			return nil, err
		}
		e.Process = agent.String()
	}
	if e.Plan == "" {
		return planBranch(ctx, c, e)
	}
	report, err := c.EndBranch(ctx, e.Process, api.EndRequest{PlanToken: e.Plan, Call: e.Call})
	if err != nil {
		return nil, err
	}
	out := &answer{}
	for _, id := range append([]string{report.Session}, report.Also...) {
		r, err := c.Report(ctx, id, endWait)
		if err != nil {
			return nil, fmt.Errorf("the end has begun, its receipt is not there yet: %w", err)
		}
		verdict := cmp.Or(string(r.Verdict), "not over yet")
		if out.Verdict == "" || r.Verdict != api.VerdictClean {
			out.Verdict = verdict
		}
		out.note("%s", strings.TrimSpace(fmt.Sprintf("verdict: %s %s",
			verdict, display.Text(r.VerdictWhy))))
		for i := range r.Processes {
			o := &r.Processes[i]
			out.Items = append(out.Items, item{
				Process: o.Ref.String(),
				Command: display.Command(api.Unwrapped(o.Argv), o.Comm, false, commandBytes),
				Outcome: string(o.Outcome),
				Why:     display.Text(o.Why),
			})
		}
	}
	return out, nil
}

func planBranch(ctx context.Context, c api.Client, e ending) (*answer, error) {
	plan, err := c.PlanBranch(ctx, e.Process, e.Call)
	if err != nil {
		return nil, err
	}
	if plan.RefusedBy != "" {
		return nil, errors.New("it would be refused: " + plan.RefusedBy)
	}
	out := &answer{Plan: plan.Token}
	for i := range plan.Processes {
		p := &plan.Processes[i]
		x := processItem(&p.Process)
		x.Why, x.Killable, x.Ports = display.Text(p.Why), &p.Killable, portsOf(p.Ports)
		out.Items = append(out.Items, x)
	}
	out.note(
		"%s would be ended; nothing was sent. To end them: end_branch with plan %q",
		display.Count(len(out.Items), "process", "processes"),
		plan.Token,
	)
	if n := plan.Ambiguous; n > 0 {
		more := display.Count(n, "more process", "more processes")
		out.note("%s may be of this call, or of another one that was open at the same time: not ended", more)
	}
	out.unknown(plan.Unknown)
	return out, nil
}

type keeping struct {
	Process string `json:"process" jsonschema:"PID@START of list_running, explain or ports"`
	Reason  string `json:"reason" jsonschema:"why, for people who find it later"`
}

func keep(ctx context.Context, c api.Client, _ string, k keeping) (*answer, error) {
	ref, err := api.ParseRef(k.Process)
	if err != nil {
		return nil, err
	}
	// A rule decides how long it is kept; only operators' requests use this time.
	s, err := c.Keep(ctx, api.KeepRequest{Refs: []api.Ref{ref}, Reason: k.Reason,
		Until: time.Now().Add(time.Hour)})
	if err != nil {
		return nil, err
	}
	until := ""
	if s.Until != nil {
		until = " until " + s.Until.UTC().Format(time.RFC3339)
	}
	out := &answer{}
	out.note("kept%s in session %s, by the policy's rule %s", until, s.ID, display.Text(s.KeepRule))
	return out, nil
}
