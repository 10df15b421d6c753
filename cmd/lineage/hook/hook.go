// Package hook is what "lineage hook" does when a coding agent calls it: one event on stdin,
// at most one answer on stdout. Whatever fails, the agent continues.
package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

const (
	// mostBytes is how much of an event is read. A tool's input may be large, and is not used.
	mostBytes = 1 << 20
	// patience is the longest time that an agent waits for us.
	patience = 200 * time.Millisecond
)

// A Hook is one call of the hook.
type Hook struct {
	Agent     string // the name that setup knows
	In        io.Reader
	Out       io.Writer
	Env       func(string) string
	Dial      func(ctx context.Context) (api.Client, error)
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
	often bool // happens many times in a turn: only the others report that no daemon answers
}

// verbs maps events to verbs; each agent has its own names of events.
var verbs = map[string]verb{
	"SessionStart":       {do: (*Hook).adopt},
	"Stop":               {do: (*Hook).sum},
	"PreToolUse":         {(*Hook).begin, true},
	"PostToolUse":        {(*Hook).end, true},
	"PostToolUseFailure": {(*Hook).end, true}, // claude-code's: the tool failed, or was not allowed
	"PermissionDenied":   {(*Hook).end, true},
	"AfterAgent":         {do: (*Hook).sum}, // gemini-cli's names
	"BeforeTool":         {(*Hook).begin, true},
	"AfterTool":          {(*Hook).end, true},
}

// Run never fails: an agent may show an error of its hooks, or stop.
func (h *Hook) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e := h.read(ctx)
	v, known := verbs[e.Name]
	if !known || v.often && h.remembers() {
		return
	}
	c, err := h.Dial(ctx)
	if err == nil {
		err = v.do(h, ctx, c, &e)
		c.Close()
	}
	if v.often {
		return
	}
	_, unreachable := errors.AsType[*api.UnreachableError](err)
	h.remember(unreachable || errors.Is(err, context.DeadlineExceeded))
}

// read returns the event; without a name it is not one that we know. The agent may still
// be writing, or never close the pipe.
func (h *Hook) read(ctx context.Context) event {
	done := make(chan event, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(h.In, mostBytes+1))
		_, _ = io.Copy(io.Discard, h.In) // so that the agent's write does not fail
		var e event
		if err != nil || len(text) > mostBytes || json.Unmarshal(text, &e) != nil {
			e = event{}
		}
		done <- e
	}()
	select {
	case e := <-done:
		return e
	case <-ctx.Done():
		return event{}
	}
}

// shells run a hook's command for the agent.
var shells = []string{"sh", "bash", "dash", "zsh", "fish", "ash", "ksh"}

// agent is the process that called us: the nearest ancestor that is not a shell.
func (h *Hook) agent() *api.Process {
	for _, p := range h.Ancestors(h.PID) {
		if !slices.Contains(shells, p.Comm) {
			return &p
		}
	}
	return nil
}

// session is the session of a process; nil if it has none.
func session(ctx context.Context, c api.Client, p *api.Process) (*api.Session, error) {
	why, err := c.Why(ctx, p.Ref.String())
	if err != nil {
		return nil, err
	}
	return why.Session, nil
}

// adopt makes a session of the agent, unless it is in one.
func (h *Hook) adopt(ctx context.Context, c api.Client, _ *event) error {
	p := h.agent()
	if p == nil {
		return nil
	}
	if s, err := session(ctx, c, p); s != nil || err != nil {
		return err
	}
	_, err := c.Create(ctx, api.NewSession{Root: p.Ref, Adopt: true, Name: fmt.Sprintf("%s-%d", h.Agent, p.PID)})
	return err
}

// begin reports that a tool call begins, and end that it is over.
func (h *Hook) begin(ctx context.Context, c api.Client, e *event) error {
	return h.mark(ctx, c, api.PhaseBegin, e)
}

func (h *Hook) end(ctx context.Context, c api.Client, e *event) error {
	return h.mark(ctx, c, api.PhaseEnd, e)
}

func (h *Hook) mark(ctx context.Context, c api.Client, phase string, e *event) error {
	p := h.agent()
	if p == nil {
		return nil
	}
	_, err := c.Mark(ctx, api.MarkRequest{Phase: phase, ID: e.id(), Tool: fitting(e.Tool, mostTool), Agent: p.Ref})
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
	mostPorts   = 8  // are named in one answer
	mostCommand = 60 // columns of each command
)

// sum names the processes of the agent's session that listen on a port when a turn is over.
func (h *Hook) sum(ctx context.Context, c api.Client, _ *event) error {
	p := h.agent()
	if p == nil {
		return nil
	}
	// A call that the user has interrupted has no end of its own.
	_, _ = c.Mark(ctx, api.MarkRequest{Phase: api.PhaseEnd, Agent: p.Ref})
	s, err := session(ctx, c, p)
	if s == nil || err != nil {
		return err
	}
	var lines []string
	for _, port := range s.Ports[:min(len(s.Ports), mostPorts)] {
		holders, err := c.WhyPort(ctx, "tcp", port)
		if err != nil {
			continue // the port is free by now
		}
		for _, w := range holders.Items {
			if q := w.Process; q.PID != p.PID && w.Session != nil && w.Session.ID == s.ID {
				lines = append(lines, fmt.Sprintf("%s (PID %d) listens on port %d", display.Command(q.Argv, q.Comm, q.ArgvTruncated, mostCommand), q.PID, port))
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if n := len(s.Ports) - mostPorts; n > 0 {
		lines = append(lines, fmt.Sprintf("%d more ports are in use", n))
	}
	h.say("lineage: still running: " + strings.Join(lines, "; ") + ". End it: lineage end " + s.ID)
	return nil
}

// say answers in the format that all these agents use for a message to the user.
func (h *Hook) say(message string) {
	_ = json.NewEncoder(h.Out).Encode(map[string]string{"systemMessage": message})
}

// memory is a file that exists while no daemon answers; "": it cannot be stored.
func (h *Hook) memory() string {
	dir := h.Env("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "lineage-hook-unreachable")
}

// remembers reports that no daemon answered the last time.
func (h *Hook) remembers() bool {
	_, err := os.Lstat(h.memory())
	return err == nil
}

// remember reports once that no daemon answers, until one does again.
func (h *Hook) remember(unreachable bool) {
	path := h.memory()
	if path == "" {
		return
	}
	if !unreachable {
		_ = os.Remove(path)
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	f.Close()
	h.say("lineage: no daemon answers; what this agent starts is not tracked")
}
