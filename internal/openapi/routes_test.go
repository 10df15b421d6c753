package openapi

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
)

type route struct {
	pattern, id, does string
	query             []parameter
	body              any           // of the request
	answers           map[int][]any // by status; nil: text
	stream            bool          // the answer is one line of many
}

type parameter struct {
	name, does string
	values     []string // none: any
}

var pathParameters = map[string]string{
	"s":   "a session: its id, or its name. Live sessions come first, then the one of that name that ended last",
	"ref": "a process: PID, or PID@START_NS. A route that signals needs the latter",
}

func ok(v ...any) map[int][]any { return map[int][]any{http.StatusOK: v} }

var (
	inSession = parameter{name: "session", does: "only of this session, by id or name"}
	since     = parameter{name: "since", does: "from this time on: RFC 3339, or a duration before now, as 10m"}
	until     = parameter{name: "until", does: "up to this time, in the same form"}
)

var routes = []route{
	{pattern: "GET /v1/version", id: "version", does: "Say which daemon answers", answers: ok(api.Version{})},
	{pattern: "GET /v1/status", id: "status", does: "Say what the daemon can do here, and what does not work", answers: ok(api.Status{})},
	{pattern: "GET /v1/sessions", id: "sessions", does: "List sessions",
		query: []parameter{
			{
				name:   "state",
				does:   "which sessions; live if absent; idle: those with idle_seconds, as of a check that the request makes",
				values: []string{"live", "ended", "all", "idle"},
			},
			{name: "name", does: "only sessions with this name"},
		}, answers: ok(api.Sessions{})},
	{pattern: "POST /v1/sessions", id: "createSession", does: "Open a session over a child of the caller, or adopt a running process",
		body: api.NewSession{}, answers: map[int][]any{http.StatusCreated: {api.Session{}}}},
	{pattern: "GET /v1/sessions/{s}", id: "session", does: "Show a session", answers: ok(api.Session{})},
	{pattern: "GET /v1/sessions/{s}/tree", id: "tree", does: "Show the processes of a session",
		query: []parameter{
			{name: "dead", does: "which dead processes; ancestors of live ones if absent", values: []string{"ancestors", "all"}},
		}, answers: ok(api.Tree{})},
	{pattern: "GET /v1/sessions/{s}/report", id: "report", does: "Show the receipt of a session; 202 while it has no verdict",
		query:   []parameter{{name: "wait", does: "how long to wait for the verdict, up to 1m"}},
		answers: map[int][]any{http.StatusOK: {api.Report{}}, http.StatusAccepted: {api.Report{}}}},
	{pattern: "POST /v1/commands", id: "command", does: "Carry out a command that operators have signed, once",
		body: api.SignedCommand{}, answers: map[int][]any{http.StatusAccepted: {api.CommandReply{}}}},
	{pattern: "GET /v1/commands/{id}", id: "commandReceipt", does: "Show the receipt of a command, signed by the host; for the caller that brought it, and root",
		query:   []parameter{{name: "wait", does: "how long to wait for the verdicts, up to 1m"}},
		answers: ok(api.CommandReply{})},
	{pattern: "POST /v1/marks", id: "mark", does: "Report that a tool call of the caller's agent begins or ends",
		body: api.MarkRequest{}, answers: ok(api.Mark{})},
	{pattern: "POST /v1/sessions/{s}/end", id: "end", does: "End a session; 200 if it had ended before",
		body: api.EndRequest{}, answers: map[int][]any{http.StatusOK: {api.Report{}}, http.StatusAccepted: {api.Report{}}}},
	{pattern: "POST /v1/sessions/{s}/pause", id: "pause", does: "Stop every member of a session", answers: ok(api.Session{})},
	{pattern: "POST /v1/sessions/{s}/resume", id: "resume", does: "Continue a session that was paused", answers: ok(api.Session{})},
	{pattern: "POST /v1/sessions/{s}/plan", id: "plan", does: "Show what an end would do; nothing is signalled", answers: ok(api.Plan{})},
	{pattern: "GET /v1/processes/{ref}", id: "process", does: "Show a process", answers: ok(api.Process{})},
	{pattern: "POST /v1/processes/{ref}/kill", id: "kill", does: "Signal one member", body: api.KillRequest{}, answers: ok(api.Killed{})},
	{pattern: "POST /v1/processes/{ref}/end", id: "endBranch", does: "Begin the end of a member and everything that it ever started",
		body: api.EndRequest{}, answers: map[int][]any{http.StatusAccepted: {api.Report{}}}},
	{pattern: "POST /v1/processes/{ref}/plan", id: "planBranch", does: "Show what that end would do; nothing is signalled or moved", answers: ok(api.Plan{})},
	{pattern: "GET /v1/why", id: "why", does: "Say which session a process belongs to, and each process in between; for a port or a path, one answer for each holder",
		query: []parameter{
			{name: "ref", does: "a process: PID or PID@START_NS"},
			{name: "port", does: "the listeners on this port"},
			{name: "proto", does: "of the port; tcp if absent", values: []string{"tcp", "udp"}},
			{name: "path", does: "the holders of this file, an absolute path"},
			{name: "device", does: "of the path, as stat(2) has it"},
			{name: "inode", does: "of the path, as stat(2) has it"},
		}, answers: ok(api.Why{}, api.Holders{})},
	{pattern: "POST /v1/keep", id: "keep", does: "Move processes to a kept session", body: api.KeepRequest{},
		answers: map[int][]any{http.StatusCreated: {api.Session{}}}},
	{pattern: "GET /v1/orphans", id: "orphans", does: "List orphans, leftovers, zombies and delegated work", query: []parameter{inSession}, answers: ok(api.Orphans{})},
	{pattern: "GET /v1/leaks", id: "leaks", does: "List the ports and locks that sessions hold", answers: ok(api.Leaks{})},
	{pattern: "GET /v1/history", id: "history", does: "List sessions that ended, the last first; or give the next receipt",
		query: []parameter{
			since,
			until,
			{name: "limit", does: "at most this many, 1 to 1000; 100 if absent"},
			{name: "next", does: "the next of the previous page"},
			{
				name: "after",
				does: "no sessions: the receipt after this place, which is the next of an answer with a receipt; now: after all that there are",
			},
		}, answers: ok(api.Sessions{})},
	{pattern: "GET /v1/events", id: "events", does: "Stream events", stream: true,
		query: []parameter{inSession, {name: "type", does: "only these types, separated by commas"}, {name: "from", does: "from this sequence number on"},
			since, until, {name: "snapshot", does: "1: send the present sessions and processes first"}}, answers: ok(api.Event{}, api.Process{})},
	{pattern: "GET /v1/watch", id: "watch", does: "Stream the live picture: a snapshot, then what changes", stream: true,
		answers: ok(api.Frame{})},
	{pattern: "GET /v1/policy", id: "policy", does: "Show the effective policy", answers: ok(api.Policy{})},
	{pattern: "GET /v1/policy/explain", id: "policyExplain", does: "Show what the rules do with a process",
		query: []parameter{{name: "ref", does: "a process: PID or PID@START_NS"}}, answers: ok(api.PolicyExplain{})},
	{pattern: "POST /v1/policy/reload", id: "policyReload", does: "Read the policy file again", answers: ok(api.Policy{})},
	{pattern: "POST /v1/policy/resume", id: "policyResume", does: "Close the circuit breaker for all users", answers: ok(api.Policy{})},
	{pattern: "POST /v1/daemon/stop", id: "stop", does: "Stop the daemon", body: api.StopRequest{}, answers: map[int][]any{http.StatusAccepted: {api.Head{}}}},
	{pattern: "POST /v1/halt", id: "halt", does: "End all sessions, or some, and refuse agents until that is lifted; or only refuse new ones",
		body: api.HaltRequest{}, answers: ok(api.Halted{})},
	{pattern: "GET /metrics", id: "metrics", does: "Metrics for Prometheus, see docs/MONITORING.md"},
}
