// Package hook is what "lineage hook" does when a coding agent calls it, and puts that call into the agent's configuration.
//
// A hook gets one event on stdin, and gives at most one answer on stdout. Whatever fails, the agent continues. A program
// that an agent starts again and again learns from the one before whether another wait for a daemon makes sense. In the
// files of agents nothing else changes, also when the hook is removed: comments, order and layout stay.
package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

const (
	// mostBytes is how much of an event is read, and more than any configuration has. A tool's input may be large, and is
	// not used.
	mostBytes = 1 << 20
	// eventTime is how late an event may come: it is the agent that is slow then.
	eventTime = 2 * time.Second
	// patience is how long an agent waits for a daemon that does not answer, and startPatience
	// how long it waits when it starts.
	patience      = 200 * time.Millisecond
	startPatience = 2 * time.Second
	pause         = 20 * time.Millisecond
	// mostMissed is how often, after each start, an agent waits in vain for a daemon that runs.
	mostMissed = 5
)

// What a note says: the user was told that no daemon answers; and, for each time, that an agent
// has waited in vain.
const (
	reported = "t"
	missed   = "m"
)

type Hook struct {
	Agent     Agent
	In        io.Reader
	Out       io.Writer
	Dial      func(ctx context.Context) (api.Client, error)
	Note      *Note
	Ancestors func(pid int) []api.Process
	PID       int // this process
}

// event has the fields of the agents' events that we use.
type event struct {
	Name    string          `json:"hook_event_name"`
	Session string          `json:"session_id"`
	Tool    string          `json:"tool_name"`
	Call    string          `json:"tool_use_id"`
	Input   json.RawMessage `json:"tool_input"`
}

// A verb is what the hook does at an event.
type verb struct {
	do    func(h *Hook, ctx context.Context, c api.Client, e *event) error
	start bool // once for each agent: it has time to wait
	often bool // many times in a turn: only the others report that no daemon answers
}

// verbs maps events to verbs; each agent has its own names of events.
var verbs = map[string]verb{
	"SessionStart":       {do: (*Hook).start, start: true},
	"UserPromptSubmit":   {do: (*Hook).sum, often: true},
	"Stop":               {do: (*Hook).sum},
	"PreToolUse":         {do: (*Hook).begin, often: true},
	"PostToolUse":        {do: (*Hook).end, often: true},
	"PostToolUseFailure": {do: (*Hook).end, often: true}, // claude-code's: the tool failed, or was not allowed
	"PermissionDenied":   {do: (*Hook).end, often: true},
	"BeforeAgent":        {do: (*Hook).sum, often: true}, // gemini-cli's names
	"AfterAgent":         {do: (*Hook).sum},
	"BeforeTool":         {do: (*Hook).begin, often: true},
	"AfterTool":          {do: (*Hook).end, often: true},
}

// prompts are the events of a new turn, which only ends calls.
var prompts = []string{"UserPromptSubmit", "BeforeAgent"}

// Run never fails: an agent may show an error of its hooks, or stop.
func (h *Hook) Run(ctx context.Context) {
	e := h.read(ctx)
	v, known := verbs[e.Name]
	if !known || v.often && h.hopeless() {
		return
	}
	limit := patience
	if v.start {
		limit = startPatience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := h.attempt(ctx, v, &e)
	for v.start && starting(err) && wait(ctx) {
		err = h.attempt(ctx, v, &e)
	}
	h.remember(v, err)
}

func (h *Hook) attempt(ctx context.Context, v verb, e *event) error {
	c, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return v.do(h, ctx, c, e)
}

// unanswered reports whether an error means that no daemon has answered.
func unanswered(err error) bool {
	return unreachable(err) || errors.Is(err, context.DeadlineExceeded)
}

func unreachable(err error) bool {
	_, unreachable := errors.AsType[*api.UnreachableError](err)
	return unreachable || is(err, api.CodeStarting) || is(err, api.CodeStopping)
}

// starting reports whether a daemon may answer soon: its socket is there.
func starting(err error) bool {
	return unreachable(err) && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, fs.ErrPermission) && !errors.Is(err, api.ErrNotLineage)
}

// is reports whether the daemon has refused with this code.
func is(err error, code string) bool {
	refusal, refused := errors.AsType[*api.Error](err)
	return refused && refusal.Code == code
}

// wait returns false when the time is over.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// read returns the event; without a name it is not one that we know. The agent may still be
// writing, or never close the pipe.
func (h *Hook) read(ctx context.Context) event {
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	done := make(chan event, 1)
	go func() {
		var e event
		err := json.NewDecoder(io.LimitReader(h.In, mostBytes)).Decode(&e)
		if err == nil {
			done <- e
		}
		_, _ = io.Copy(io.Discard, h.In) // so that the agent's write does not fail
		if err != nil {
			done <- event{}
		}
	}()
	select {
	case e := <-done:
		return e
	case <-ctx.Done():
		return event{}
	}
}

// subagents are tools that start no process. What a subagent starts belongs to its own calls, and
// would be ambiguous if the call of such a tool were open, too.
var subagents = []string{"Agent", "Task"}

// begin reports that a tool call begins, and end that it is over.
func (h *Hook) begin(ctx context.Context, c api.Client, e *event) error {
	return h.mark(ctx, c, api.PhaseBegin, e)
}

func (h *Hook) end(ctx context.Context, c api.Client, e *event) error {
	return h.mark(ctx, c, api.PhaseEnd, e)
}

func (h *Hook) mark(ctx context.Context, c api.Client, phase string, e *event) error {
	a := h.agent()
	if a == nil || slices.Contains(subagents, e.Tool) {
		return nil
	}
	request := api.MarkRequest{Phase: phase, ID: e.id(), Tool: fitting(e.Tool, mostTool), Agent: a.Ref}
	_, err := c.Mark(ctx, request)
	if !is(err, api.CodeDenied) {
		return err
	}
	adopted, err := h.adopt(ctx, c, a)
	if !adopted || phase == api.PhaseEnd {
		return err
	}
	ctx, cancel := later(ctx)
	defer cancel()
	_, err = c.Mark(ctx, request)
	for range mostMissed { // the hook that adopts the agent may not have come to this process yet
		if !is(err, api.CodeDenied) || !wait(ctx) {
			break
		}
		_, err = c.Mark(ctx, request)
	}
	return err
}

// The daemon's limits for the texts of a call, in bytes.
const mostID, mostTool = 128, 64

// id names the call. Without an id from the agent it is a hash of session, tool and input,
// which are the same at the call's end. The hash does not reveal the input.
func (e *event) id() string {
	if e.Call != "" {
		return fitting(e.Call, mostID)
	}
	input := sha256.Sum256(slices.Concat([]byte(e.Session+"\x00"+e.Tool+"\x00"), e.Input))
	return hex.EncodeToString(input[:8])
}

// fitting is a name that the daemon accepts: printable, and not too long.
func fitting(name string, most int) string {
	name = display.Text(name)
	for len(name) > most || !utf8.ValidString(name) {
		name = name[:min(len(name)-1, most)]
	}
	return name
}

const (
	mostCalls   = 4  // are named in one answer
	mostPorts   = 8  // are, too
	mostCommand = 60 // columns of each command
)

// sum names what the agent's calls have left when a turn is over, and the other processes of its
// session that listen on a port; and how to end each of them: not the session, which is the agent's
// own.
func (h *Hook) sum(ctx context.Context, c api.Client, e *event) error {
	a := h.agent()
	if a == nil {
		return nil
	}
	// A call that the user has interrupted has no end of its own.
	_, err := c.Mark(ctx, api.MarkRequest{Phase: api.PhaseEnd, Agent: a.Ref})
	if is(err, api.CodeDenied) {
		if adopted, err := h.adopt(ctx, c, a); adopted || err != nil {
			return err
		}
	}
	if slices.Contains(prompts, e.Name) {
		return err
	}
	p, err := c.Process(ctx, a.Ref.String())
	if err != nil || p.Session == "" {
		return err
	}
	s, err := c.Session(ctx, p.Session)
	if err != nil {
		return err
	}
	lines, ends, named, err := leftByCalls(ctx, c, p)
	if err != nil {
		return err
	}
	ports := slices.DeleteFunc(s.Ports, func(port int) bool { return named[port] })
	above := map[api.Ref]bool{} // what the agent descends from: the end of these would end it
	if why, err := c.Why(ctx, a.Ref.String()); err == nil {
		for _, e := range why.Edges {
			above[e.Child.Ref] = true
		}
	} else {
		return err
	}
	for _, port := range ports[:min(len(ports), mostPorts)] {
		holders, err := c.WhyPort(ctx, "tcp", port)
		if err != nil {
			continue // the port is free by now
		}
		for _, w := range holders.Items {
			if q := w.Process; !above[q.Ref] && w.Session != nil && w.Session.ID == s.ID && !shares(&w,
				holders) {
				lines = append(
					lines,
					fmt.Sprintf("%s (PID %d) listens on port %d",
						display.Brief(q.Argv, q.Comm, q.ArgvTruncated, mostCommand), q.PID, port),
				)
				if end := "lineage end " + q.Ref.String() + " --branch"; !slices.Contains(ends, end) {
					ends = append(ends, end)
				}
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if n := len(ports) - mostPorts; n > 0 {
		lines = append(lines, fmt.Sprintf("%d more ports are in use", n))
	}
	text := "lineage: still running: " + strings.Join(lines, "; ") + ". "
	if len(ends) > 0 {
		text += "Keep it, or end it: " + strings.Join(ends, "; ")
	} else {
		text += `What it is: "lineage ls --calls"`
	}
	h.say(text)
	return nil
}

// leftByCalls says what the calls of the agent have left in its session, how to end it, and on which
// ports it listens.
func leftByCalls(ctx context.Context, c api.Client, agent *api.Process) (lines,
	ends []string, ports map[int]bool, err error) {
	left, err := c.Orphans(ctx, agent.Session)
	if err != nil {
		return nil, nil, nil, err
	}
	ports = make(map[int]bool)
	calls := slices.DeleteFunc(left.Calls, func(x api.CallLeft) bool {
		return x.Kept || x.Calls[0].Agent == nil || *x.Calls[0].Agent != agent.Ref
	})
	for i := range calls[:min(len(calls), mostCalls)] {
		x := &calls[i]
		lines = append(lines, display.Left(x, time.Now(), mostCommand))
		for _, port := range x.Ports {
			ports[port] = true
		}
		if !x.Ambiguous {
			ends = append(ends, display.Command([]string{"lineage", "end", "--call",
				x.Calls[0].ID, agent.Session}, "", false, 0))
		}
	}
	if n := len(calls) + left.MoreCalls - mostCalls; n > 0 {
		lines = append(lines, display.Count(n, "more call has live processes", "more calls have live processes"))
	}
	return lines, ends, ports, nil
}

// shares reports whether a holder descends from another one: that is named, and its branch has both.
func shares(w *api.Why, holders *api.Holders) bool {
	return slices.ContainsFunc(holders.Items, func(x api.Why) bool {
		return x.Process.Ref != w.Process.Ref && slices.ContainsFunc(w.Edges,
			func(e api.Edge) bool { return e.Child.Ref == x.Process.Ref })
	})
}

// say answers in the format that all these agents use for a message to the user.
func (h *Hook) say(message string) {
	_ = json.NewEncoder(h.Out).Encode(map[string]string{"systemMessage": message})
}

// hopeless reports that a wait for the daemon would be in vain, as those before were.
func (h *Hook) hopeless() bool {
	text, _ := h.Note.Read()
	return strings.Count(text, missed) >= mostMissed
}

// remember reports once that no daemon answers, until one does again.
func (h *Hook) remember(v verb, err error) {
	if !unanswered(err) {
		h.Note.Remove()
		return
	}
	text, _ := h.Note.Read()
	kept := true
	switch {
	case v.often:
		if errors.Is(err, context.DeadlineExceeded) { // else nobody listens, and nobody waited
			h.Note.Add(missed)
		}
		return
	case v.start:
		kept = h.Note.Write(reported)
	case !strings.Contains(text, reported):
		kept = h.Note.Add(reported)
	}
	// Without a note it is said at each start, and not after each turn.
	if kept && !strings.Contains(text, reported) || !kept && v.start {
		h.say("lineage: no daemon answers; what this agent starts is not tracked until one does")
	}
}
