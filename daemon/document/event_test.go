package document

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestEvent: testdata/TestEvent.golden has the document of each event.
func TestEvent(t *testing.T) {
	comm := lineage.CommOf("sh")
	sh, five, six := lineage.Looks{Comm: comm}, lineage.Looks{Comm: comm, UID: 5}, lineage.Looks{Comm: comm, UID: 6}
	killed := &lineage.Signal{Number: 15, Sender: lineage.ByProcess, Time: 40, By: id(102), Session: session, UID: 5, Comm: "pkill", Handled: true, Raised: true}
	shell := &lineage.Image{Comm: "sh", Exe: "/bin/sh", Argv: []string{"sh", "-c"}, Truncated: true}
	whole := lineage.After{Image: shell, Met: true}
	dead := whole
	dead.Exited, dead.StatusKnown = 45, true
	call := &lineage.Call{ID: "toolu_1", Began: 40}
	call.End(60) // after the events
	var all []string
	for _, event := range []tracer.Event{
		{Type: tracer.EventBirth, Creator: id(100), Parent: id(1), Evidence: tracer.EvidenceFork, Looks: five},
		{Type: tracer.EventExec, Looks: five, After: lineage.After{Image: shell, Was: &lineage.Image{Comm: "su", Argv: []string{"su"}}, WasUID: 6, Before: 44}},
		{Type: tracer.EventExec, Looks: six, After: whole},
		{Type: tracer.EventExit, ExitStatus: 3 << 8, CPUTime: 5e8, MaxRSS: 6},
		{Type: tracer.EventExit, Evidence: tracer.EvidenceReconciled, ExitStatus: 3 << 8},
		{Type: tracer.EventExit, ExitStatus: 15, Signal: killed},
		{Type: tracer.EventExit, ExitStatus: 15, Flags: tracer.FlagTermed, Signal: &lineage.Signal{Number: 15, Sender: lineage.ByProcess, By: id(101)}},
		{Type: tracer.EventExit, ExitStatus: 9, Flags: tracer.FlagKilled},
		{Type: tracer.EventStop, Signal: &lineage.Signal{Number: 40, Sender: lineage.ByKernel, Time: 40}},
		{Type: tracer.EventContinue, Signal: &lineage.Signal{Number: 18, Sender: lineage.ByKernel}},
		{Type: tracer.EventCrossing, Looks: sh, Crossing: &tracer.Crossing{Signal: 15, Refused: true, To: id(102), Session: session, UID: 5, Comm: "db"}},
		{Type: tracer.EventMoved, Looks: sh, Moved: &tracer.Moved{Cgroup: 7, Path: "/a", Outside: true, By: id(102), Session: session, UID: 5, Comm: "db"}},
		{Type: tracer.EventExit, ExitStatus: 9, Signal: &lineage.Signal{Number: 9, Sender: lineage.ByOOM, OOM: &lineage.OOM{Of: "session", Session: session, Name: "web", Limit: 8, Peak: 7, Had: 6}}},
		{Type: tracer.EventReparent, Looks: five, From: id(100), Parent: id(1), After: whole, Claim: &lineage.Claim{Calls: []*lineage.Call{call}}},
		{Type: tracer.EventReaped, Looks: five, After: dead, ExitStatus: 3 << 8},
		{Type: tracer.EventSession, State: tracer.StateEnding, Cause: tracer.CauseIdle},
		{Type: tracer.EventLost, Count: 3, Since: 40},
		{Type: tracer.EventLost},
	} {
		event.Time, event.Session, event.Process = 50, session, id(101)
		all = append(all, text(t, Event(Fixed(zero), 8, &event, user(5))))
	}
	golden.RequireEqual(t, strings.Join(all, "\n"))
}
