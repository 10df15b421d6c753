// Package hook is what "lineage hook" does when a coding agent calls it: one event on stdin,
// at most one answer on stdout. Whatever is wrong, the agent continues.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

const (
	// mostBytes of an event are read. A tool's input may be large, and nothing of it is used.
	mostBytes = 1 << 20
	// patience is how long an agent waits for us at most.
	patience = 200 * time.Millisecond
)

// A Hook is one call.
type Hook struct {
	Agent     string // the name that setup knows
	In        io.Reader
	Out       io.Writer
	Env       func(string) string
	Dial      func(ctx context.Context) (api.Client, error)
	Ancestors func(pid int) []api.Process
	PID       int // this process
}

// event has what is used of the agents' events.
type event struct {
	Name string `json:"hook_event_name"`
}

// verbs are what is done at which event; each agent has its own names.
var verbs = map[string]func(h *Hook, ctx context.Context, c api.Client) error{
	"SessionStart": (*Hook).adopt,
	"Stop":         (*Hook).sum,
	"AfterAgent":   (*Hook).sum, // gemini-cli's name for Stop
}

// Run never fails: an agent may show an error of its hooks, or stop.
func (h *Hook) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	verb := verbs[h.read(ctx).Name]
	if verb == nil {
		return
	}
	c, err := h.Dial(ctx)
	if err == nil {
		err = verb(h, ctx, c)
		c.Close()
	}
	_, unreachable := errors.AsType[*api.UnreachableError](err)
	h.remember(unreachable || errors.Is(err, context.DeadlineExceeded))
}

// read gives the event; one without a name is nothing that we know. The agent may still be
// writing, or never close the pipe.
func (h *Hook) read(ctx context.Context) event {
	done := make(chan event, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(h.In, mostBytes+1))
		_, _ = io.Copy(io.Discard, h.In) // the agent's write does not fail
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

// agent is the process that called: the nearest that is not a shell.
func (h *Hook) agent() *api.Process {
	for _, p := range h.Ancestors(h.PID) {
		if !slices.Contains(shells, p.Comm) {
			return &p
		}
	}
	return nil
}

// session is that of a process; nil if it is of none.
func session(ctx context.Context, c api.Client, p *api.Process) (*api.Session, error) {
	why, err := c.Why(ctx, p.Ref.String())
	if err != nil {
		return nil, err
	}
	return why.Session, nil
}

// adopt makes a session of the agent, unless it is in one.
func (h *Hook) adopt(ctx context.Context, c api.Client) error {
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

const (
	mostPorts   = 8  // are named in one answer
	mostCommand = 60 // columns of each command
)

// sum names the processes of the agent's session that listen on a port when a turn is over.
func (h *Hook) sum(ctx context.Context, c api.Client) error {
	p := h.agent()
	if p == nil {
		return nil
	}
	s, err := session(ctx, c, p)
	if s == nil || err != nil {
		return err
	}
	var lines []string
	for _, port := range s.Ports[:min(len(s.Ports), mostPorts)] {
		holders, err := c.WhyPort(ctx, "tcp", port)
		if err != nil {
			continue // it is free by now
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

// say answers in the format that all these agents have for a message to their user.
func (h *Hook) say(message string) {
	_ = json.NewEncoder(h.Out).Encode(map[string]string{"systemMessage": message})
}

// remember says once that no daemon answers, until one does again.
func (h *Hook) remember(unreachable bool) {
	dir := h.Env("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		return
	}
	path := filepath.Join(dir, "lineage-hook-unreachable")
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
