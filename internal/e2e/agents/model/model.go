// Package model is a model server on the loopback interface that plays a script. It speaks
// the streaming formats that coding agents expect, Anthropic Messages, OpenAI Responses and
// Gemini, so that a real agent runs real tool calls without an account.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// A Turn is one answer of the model: calls of tools, or a text that ends the agent's turn.
type Turn struct {
	Text  string
	Calls []Call
	Hold  <-chan struct{} // if set, the answer waits until this is closed
}

// A Call asks the agent to use a tool: a shell command, or the tool that is named.
type Call struct {
	Command    string
	Background bool // only where the agent's own tool can do that
	Tool       string
	Args       map[string]any
	ArgsOf     func(request string) map[string]any // if set, the arguments, from the conversation so far
}

// Run is a turn with one shell command.
func Run(command string) Turn { return Turn{Calls: []Call{{Command: command}}} }

// Say is a turn without a tool call, after which the agent waits for its user, or exits.
func Say(text string) Turn { return Turn{Text: text} }

// A Server plays one script to every conversation: the n-th turn answers a request that contains n answers.
type Server struct {
	URL    string
	Trace  io.Writer // where the requests of one conversation are written, if set
	script []Turn
	sub    []Turn
	http   http.Server
}

// Start serves the script until Close.
func Start(script ...Turn) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String(), script: script}
	s.http.Handler = http.HandlerFunc(s.serve)
	go func() { _ = s.http.Serve(l) }() // Close ends it
	return s, nil
}

// Subagent is in the prompts of subagents, which get a script of their own.
const Subagent = "lngtest-subagent"

// Sub sets the script of subagents, before the first request.
func (s *Server) Sub(script ...Turn) { s.sub = script }

// Close ends the server and the answers that wait.
func (s *Server) Close() { _ = s.http.Close() }

// A format is how one vendor's requests are read and its answers are written.
type format interface {
	// tools are the names of the tools that the request offers.
	tools() []string
	// answered is the number of answers that the conversation contains.
	answered() int
	// write sends an answer. Each call already has the arguments for the agent's tool.
	write(w http.ResponseWriter, t Turn)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	if err != nil {
		return
	}
	if s.Trace != nil {
		fmt.Fprintf(s.Trace, "%s %s\n%s\n", r.Method, r.URL, body)
	}
	f := s.format(r, body)
	if f == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "{}")
		return
	}
	f.write(w, s.next(r, f, string(body)))
}

// format finds the format of a request by its path; nil if the request asks for something else.
func (s *Server) format(r *http.Request, body []byte) format {
	var f format
	switch path := r.URL.Path; {
	case r.Method != http.MethodPost:
		return nil
	case strings.HasSuffix(path, "/messages"):
		f = &messages{}
	case strings.HasSuffix(path, "/responses"):
		f = &responses{}
	case strings.HasSuffix(path, ":streamGenerateContent"):
		f = &gemini{stream: true}
	case strings.HasSuffix(path, ":generateContent"):
		f = &gemini{}
	default:
		return nil
	}
	if json.Unmarshal(body, f) != nil {
		return nil
	}
	return f
}

// next is the turn that answers a request. Agents also ask for titles and the like: these
// requests offer no shell, and get one word as answer.
func (s *Server) next(r *http.Request, f format, request string) Turn {
	shell, script := shellOf(f.tools()), s.script
	if m, ok := f.(interface{ sub() bool }); ok && m.sub() {
		script = s.sub
	}
	n := f.answered()
	if shell == "" || n >= len(script) {
		return Say("done")
	}
	t := script[n]
	if t.Hold != nil {
		select {
		case <-t.Hold:
		case <-r.Context().Done():
		}
	}
	calls := make([]Call, len(t.Calls))
	for i, c := range t.Calls {
		if c.ArgsOf != nil {
			c.Args = c.ArgsOf(request)
		}
		if c.Tool == "" {
			c = Call{Tool: shell, Args: shells[shell](c)}
		}
		c.Tool = offered(f.tools(), c.Tool)
		calls[i] = c
	}
	return Turn{Text: t.Text, Calls: calls}
}

// shells are the agents' tools that run a command, with the arguments of each.
var shells = map[string]func(Call) map[string]any{
	"Bash":              described("run_in_background"), // Claude Code
	"bash":              described(""),                  // opencode
	"run_shell_command": described("is_background"),     // gemini-cli
	"exec_command": func(c Call) map[string]any { // codex
		return map[string]any{"cmd": c.Command, "yield_time_ms": 20000}
	},
	"shell_command": func(c Call) map[string]any {
		return map[string]any{"command": c.Command, "timeout_ms": 60000}
	},
}

// described is a tool that wants a description, and has this argument for a command in the background.
func described(background string) func(Call) map[string]any {
	return func(c Call) map[string]any {
		args := map[string]any{"command": c.Command, "description": "run it"}
		if c.Background && background != "" {
			args[background] = true
		}
		return args
	}
}

func shellOf(tools []string) string {
	for _, name := range tools {
		if shells[name] != nil {
			return name
		}
	}
	return ""
}

// offered is the full name of a tool: an agent puts the name of an MCP server before it.
func offered(tools []string, name string) string {
	for _, full := range tools {
		if full == name || strings.HasSuffix(full, "_"+name) {
			return full
		}
	}
	return name
}

// events writes server-sent events.
type events struct {
	w http.ResponseWriter
}

func stream(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream")
	return events{w}
}

// send writes one event; data has its type, if the format has one.
func (e events) send(kind string, data map[string]any) {
	if kind != "" {
		data["type"] = kind
		fmt.Fprintf(e.w, "event: %s\n", kind)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", encoded(data))
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

func encoded(args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // the arguments of a script can be encoded
	}
	return string(b)
}
