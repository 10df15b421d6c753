package ocsf

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// A story whose records are the samples: an agent starts a shell, the shell a server, the
// shell exits, and the session is ended.

const (
	sampleBoot = "6d3f0f6e-9d0c-4c1e-8b0a-1f2d3c4b5a69"
	second     = uint64(time.Second)
)

var (
	sampleHost = &follow.Host{ID: "8f0c2b6e5a1d4f3e9c7b6a5d4e3f2a1b", Name: "build-7", Arch: "amd64", Kernel: "6.18.44", Version: "0.1.0"}
	booted     = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

	agentRef  = api.Ref{PID: 4100, StartNS: api.U64(100 * second)}
	shellRef  = api.Ref{PID: 4242, StartNS: api.U64(110 * second)}
	serverRef = api.Ref{PID: 4243, StartNS: api.U64(111 * second)}
	outerRef  = api.Ref{PID: 900, StartNS: api.U64(5 * second)}
	initRef   = api.Ref{PID: 1, StartNS: 1}
)

func sampleSession() *api.Session {
	return &api.Session{
		ID: "k3x9q2", Name: "claude", UID: 1000, State: api.StateActive, Rule: "claude", Started: at(100 * second),
		Root: &api.Process{Ref: agentRef, Session: "k3x9q2", Comm: "claude", Exe: "/usr/local/bin/claude", Argv: []string{"claude", "-p", "start the server"},
			UID: new(1000), Started: at(100 * second), Creator: &outerRef, Parent: &outerRef, Evidence: &api.Evidence{Kind: "root", Confidence: "strong"}},
	}
}

func at(ns uint64) *time.Time { return new(booted.Add(time.Duration(ns))) }

type oneSession struct{ session *api.Session }

func (s oneSession) Session(string) (*api.Session, error) { return s.session, nil }
func (s oneSession) Hide(e *api.Event) {
	for _, p := range []*api.Process{e.Process, e.Was} {
		if p != nil {
			p.Argv = redact.Argv(p.Argv)
		}
	}
}

// story gives events numbers, times, and their processes whole.
type story struct {
	seq uint64
	k   *follow.Known
	now map[api.Ref]*api.Process
}

func newStory() *story { return storyOf(sampleSession()) }

func storyOf(session *api.Session) *story {
	return &story{k: follow.NewKnown(sampleHost, sampleBoot, oneSession{session}), now: make(map[api.Ref]*api.Process)}
}

func (s *story) event(ns uint64, kind api.EventType, e api.Event) *follow.Record {
	s.seq++
	e.Head, e.Seq, e.TimeNS, e.Time, e.Type = api.Head{Kind: "event"}, api.U64(s.seq), api.U64(ns), at(ns), kind
	if e.Process != nil {
		e.Session = e.Process.Session
		s.whole(&e)
	}
	r, _ := s.k.Take(&e) // the source has no error
	return r
}

// whole adds to an event's process what earlier events said of it, or of its creator.
func (s *story) whole(e *api.Event) {
	p := e.Process
	before := s.now[p.Ref]
	if before == nil {
		if before = new(api.Process); p.Creator != nil && s.now[*p.Creator] != nil {
			c := s.now[*p.Creator]
			before = &api.Process{Exe: c.Exe, Argv: c.Argv, UID: c.UID, Trace: c.Trace, Calls: c.Calls}
		}
	} else if e.Type == api.EventExec {
		e.Was = &api.Process{Ref: p.Ref, Comm: before.Comm, Exe: before.Exe, Argv: before.Argv, UID: before.UID}
	}
	p.Comm, p.Exe, p.UID = cmp.Or(p.Comm, before.Comm), cmp.Or(p.Exe, before.Exe), cmp.Or(p.UID, before.UID)
	p.Creator, p.Parent, p.Started = cmp.Or(p.Creator, before.Creator), cmp.Or(e.To, p.Parent, before.Parent), cmp.Or(p.Started, before.Started)
	p.Evidence, p.Trace, p.Exited = cmp.Or(p.Evidence, before.Evidence), cmp.Or(p.Trace, before.Trace), cmp.Or(p.Exited, before.Exited)
	if p.Argv == nil {
		p.Argv = before.Argv
	}
	if p.Calls == nil {
		p.Calls = before.Calls
	}
	s.now[p.Ref] = new(*p)
}

// sample is a record and what its events are samples of.
type sample struct {
	name string
	*follow.Record
}

func samples() (all []sample) {
	s := newStory()
	add := func(name string, r *follow.Record) *follow.Record {
		all = append(all, sample{name, r})
		return r
	}
	strong := &api.Evidence{Kind: "fork", Confidence: "strong"}
	s.now[agentRef] = sampleSession().Root
	add("a fork", s.event(110*second, "fork", api.Event{Process: &api.Process{Ref: shellRef, Session: "k3x9q2", Comm: "claude", UID: new(1000),
		Creator: &agentRef, Parent: &agentRef, Started: at(110 * second), Evidence: strong,
		Calls: []api.Call{{ID: "toolu_01", Tool: "Bash", Agent: &agentRef, Began: at(109 * second), Claimed: true}},
		Trace: &api.Trace{TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331", From: shellRef, Claimed: true}}}))
	add("an exec", s.event(110*second+4e6, "exec", api.Event{Process: &api.Process{Ref: shellRef, Session: "k3x9q2", Comm: "bash", UID: new(1000),
		Exe: "/usr/bin/bash", Argv: []string{"bash", "-c", "API_TOKEN=s3cret python3 -m http.server 8123 &"}}}))
	s.event(111*second, "fork", api.Event{Process: &api.Process{Ref: serverRef, Session: "k3x9q2", Comm: "bash", UID: new(1000),
		Creator: &shellRef, Parent: &shellRef, Started: at(111 * second), Evidence: strong}})
	add("another user", s.event(111*second+2e6, "exec", api.Event{Process: &api.Process{Ref: serverRef, Session: "k3x9q2", Comm: "sudo", UID: new(0),
		Exe: "/usr/bin/sudo", Argv: []string{"sudo", "python3", "-m", "http.server", "8123"}}}))
	s.event(111*second+3e6, "exec", api.Event{Process: &api.Process{Ref: serverRef, Session: "k3x9q2", Comm: "python3", UID: new(0),
		Exe: "/usr/bin/python3", Argv: []string{"python3", "-m", "http.server", "8123"}}})
	add("an exit", s.event(111*second+5e6, "exit", api.Event{Process: &api.Process{Ref: shellRef, Session: "k3x9q2", Comm: "bash",
		Exited: at(111*second + 5e6), ExitCode: new(0), CPUSeconds: 0.004, RSSBytes: 3 << 20}}))
	s.event(111*second+5e6, "reparent", api.Event{Process: &api.Process{Ref: serverRef, Session: "k3x9q2"}, From: &shellRef, To: &initRef})
	s.event(200*second, "exit", api.Event{Process: &api.Process{Ref: agentRef, Session: "k3x9q2", Comm: "claude", Exited: at(200 * second), ExitCode: new(0)}})

	info := &follow.SessionInfo{Session: *sampleSession()}
	add("leftovers that are alive", &follow.Record{
		ID:      "leftovers",
		Kind:    follow.Orphans,
		Host:    sampleHost,
		Boot:    sampleBoot,
		Time:    *at(205 * second),
		Session: info,
		Known:   s.k,
		Orphans: []api.Orphan{
			{Why: api.WhyLeftover, Process: api.Process{Ref: serverRef, Session: "k3x9q2", Comm: "python3", Argv: []string{"python3", "-m", "http.server", "8123"}}},
		},
	})
	add("delegated work that was not found", &follow.Record{
		ID:      "delegated",
		Kind:    follow.Orphans,
		Host:    sampleHost,
		Boot:    sampleBoot,
		Time:    *at(206 * second),
		Session: info,
		Known:   s.k,
		Orphans: []api.Orphan{
			{Why: api.WhyDelegated, Process: api.Process{Ref: serverRef, Session: "k3x9q2"},
				Delegated: &api.Delegated{Broker: "tmux", State: "unattributed", Time: at(150 * second),
					Asked: &api.Process{Ref: serverRef, Comm: "python3", Argv: []string{"python3", "-m", "http.server", "8123"}}}},
		},
	})

	add("a signal out of a guarded session", s.event(210*second, "crossing", api.Event{Process: &api.Process{Ref: serverRef, Session: "k3x9q2", Comm: "python3"},
		Crossing: &api.Crossing{Signal: "SIGKILL", Refused: true, To: &api.Process{Ref: outerRef, Comm: "postgres", UID: new(0)}}}))
	add("a death by the OOM killer", s.event(220*second, "exit", api.Event{Process: &api.Process{Ref: api.Ref{PID: 4131, StartNS: 9}, Session: "k3x9q2",
		Comm: "node", Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "oom"}}}))
	add("busy processes of a tool call that is over", &follow.Record{ID: "busy", Kind: follow.Busy, Host: sampleHost,
		Boot: sampleBoot, Time: *at(28800 * second), Session: info,
		Call: &api.CallLeft{Session: "k3x9q2", Calls: []api.Call{{ID: "toolu_01", Tool: "Bash", Agent: &agentRef, Began: at(110 * second), Ended: at(120 * second)}},
			Processes: 39, CPUs: 7, Commands: []api.CallCommand{{Processes: 39, Comm: "yes", Argv: []string{"yes"}}}}})

	s.event(300*second+4e6, "exit", api.Event{Process: &api.Process{Ref: serverRef, Session: "k3x9q2", Comm: "python3",
		Exited: at(300*second + 4e6), Signal: "SIGKILL"}})
	end := add("an end", s.event(300*second+6e6, "session", api.Event{Session: "k3x9q2", State: api.StateEnded, Reason: "max_lifetime"}))
	end.Report = &api.Report{
		Session: "k3x9q2", Name: "claude", State: api.StateEnded, Ended: at(300*second + 6e6), EndReason: "max_lifetime", Verdict: api.VerdictClean,
		DurationMS: 5006, Started: 3, Exited: 2, Killed: 1, ConfirmedEmpty: true,
		Counted: &api.Counted{Births: 2}, AuditHead: "41:" + strings.Repeat("9f86d081", 8),
		Processes: []api.Outcome{{Ref: serverRef, Comm: "python3", Argv: []string{"python3", "-m", "http.server", "8123"},
			Outcome: api.OutcomeKill, Leftover: true}},
	}
	add("missing events", s.event(310*second, "lost", api.Event{Where: "ring", Count: 412, SinceNS: api.U64(309 * second), UntilNS: api.U64(310 * second)}))
	add("a degraded daemon", &follow.Record{ID: "degraded", Kind: follow.Status, Host: sampleHost, Boot: sampleBoot, Time: *at(400 * second),
		Status: &api.Status{Level: 3, Mode: "enforce", Degraded: []string{"history: no space left on device"}}, Before: &api.Status{Level: 4, Mode: "enforce"}})
	add("an open breaker", &follow.Record{ID: "breaker", Kind: follow.Status, Host: sampleHost, Boot: sampleBoot, Time: *at(500 * second),
		Status: &api.Status{Level: 4, Mode: "enforce", Breaker: api.Breaker{Open: true, UIDs: []int{1000}}}, Before: &api.Status{Level: 4, Mode: "enforce"}})
	return all
}

// newEncoder is an encoder on a host with two users.
func newEncoder() *Encoder {
	e := New()
	e.users.name = func(uid string) string { return map[string]string{"0": "root", "1000": "me"}[uid] }
	return e
}

func encoded(e *Encoder, r *follow.Record) []follow.LogRecord {
	return slices.Collect(e.Encode(r))
}
