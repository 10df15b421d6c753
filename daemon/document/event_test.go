package document

import (
	"testing"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestEvent(t *testing.T) {
	comm := lineage.CommOf("sh")
	sh, five, six := lineage.Looks{Comm: comm}, lineage.Looks{Comm: comm, UID: 5}, lineage.Looks{Comm: comm, UID: 6}
	killed := &lineage.Signal{Number: 15, Sender: lineage.ByProcess, Time: 40, By: id(102), Session: session, UID: 5, Comm: "pkill", Handled: true, Raised: true}
	shell := &lineage.Image{Comm: "sh", Exe: "/bin/sh", Argv: []string{"sh", "-c"}, Truncated: true}
	whole := lineage.After{Image: shell, Met: true}
	dead := whole
	dead.Exited, dead.StatusKnown = 45, true
	const is = `"process":{"pid":101,"start_ns":"1010","session":"000007",`
	const began = `"started":"2026-01-02T03:04:05.00000101Z"`
	const ran = is + `"comm":"sh","exe":"/bin/sh","argv":["sh","-c"],"argv_truncated":true,"uid":5,`
	const over = `"exited":"2026-01-02T03:04:05.00000005Z",`
	call := &lineage.Call{ID: "toolu_1", Began: 40}
	call.End(60) // after the events
	for _, c := range []struct {
		event tracer.Event
		want  string
	}{
		{tracer.Event{Type: tracer.EventBirth, Creator: id(100), Parent: id(1), Evidence: tracer.EvidenceFork, Looks: five},
			`"type":"fork",` + is + `"creator":{"pid":100,"start_ns":"1000"},"parent":{"pid":1,"start_ns":"10"},"comm":"sh","uid":5,"state":"live",` + began + `,"evidence":{"kind":"fork","confidence":"strong"}},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventExec, Looks: five, After: lineage.After{Image: shell, Was: &lineage.Image{Comm: "su", Argv: []string{"su"}}, WasUID: 6, Before: 44}},
			`"type":"exec",` + ran + `"state":"live",` + began + `},"was":{"pid":101,"start_ns":"1010","comm":"su","uid":6},"session":"000007","since_ns":"44"}`},
		{tracer.Event{Type: tracer.EventExec, Looks: six, After: whole},
			`"type":"exec",` + is + `"comm":"sh","exe":"/bin/sh","uid":6,"state":"live",` + began + `},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventExit, ExitStatus: 3 << 8, CPUTime: 5e8, MaxRSS: 6},
			`"type":"exit",` + is + `"state":"zombie",` + began + `,` + over + `"exit_code":3,"cpu_seconds":0.5,"rss_bytes":6},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventExit, Evidence: tracer.EvidenceReconciled, ExitStatus: 3 << 8},
			`"type":"exit",` + is + `"state":"zombie",` + began + `,` + over[:len(over)-1] + `,"evidence":{"kind":"reconciled","source":"iterator","confidence":"strong"}},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventExit, ExitStatus: 15, Signal: killed},
			`"type":"exit",` + is + `"state":"zombie",` + began + `,` + over + `"signal":"SIGTERM","killer":{"signal":"SIGTERM","kind":"process","time":"2026-01-02T03:04:05.00000004Z","process":{"pid":102,"start_ns":"1020","session":"000007","comm":"pkill","uid":5},"handled":true,"raised":true}},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventExit, ExitStatus: 15, Flags: tracer.FlagTermed, Signal: &lineage.Signal{Number: 15, Sender: lineage.ByProcess, By: id(101)}},
			`"type":"exit",` + is + `"state":"zombie",` + began + `,` + over + `"signal":"SIGTERM","killer":{"signal":"SIGTERM","kind":"lineage","handled":true,"raised":true}},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventExit, ExitStatus: 9, Flags: tracer.FlagKilled},
			`"type":"exit",` + is + `"state":"zombie",` + began + `,` + over + `"signal":"SIGKILL","killer":{"signal":"SIGKILL","kind":"lineage"}},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventStop, Signal: &lineage.Signal{Number: 40, Sender: lineage.ByKernel, Time: 40}},
			`"type":"stop",` + is + `"state":"live",` + began + `,"stopped":{"signal":"SIGRTMIN+6","kind":"kernel","time":"2026-01-02T03:04:05.00000004Z"}},"session":"000007","sent":{"signal":"SIGRTMIN+6","kind":"kernel","time":"2026-01-02T03:04:05.00000004Z"}}`},
		{tracer.Event{Type: tracer.EventContinue, Signal: &lineage.Signal{Number: 18, Sender: lineage.ByKernel}},
			`"type":"continue",` + is + `"state":"live",` + began + `},"session":"000007","sent":{"signal":"SIGCONT","kind":"kernel"}}`},
		{tracer.Event{Type: tracer.EventCrossing, Looks: sh, Crossing: &tracer.Crossing{Signal: 15, Refused: true, To: id(102), Session: session, UID: 5, Comm: "db"}},
			`"type":"crossing",` + is + `"comm":"sh","state":"live",` + began + `},"session":"000007","crossing":{"signal":"SIGTERM","to":{"pid":102,"start_ns":"1020","session":"000007","comm":"db","uid":5},"refused":true}}`},
		{tracer.Event{Type: tracer.EventReparent, Looks: five, From: id(100), Parent: id(1), After: whole, Claim: &lineage.Claim{Calls: []*lineage.Call{call}}},
			`"type":"reparent",` + is + `"parent":{"pid":1,"start_ns":"10"},` + ran[len(is):] + `"state":"live",` + began + `,"calls":[{"id":"toolu_1","began":"2026-01-02T03:04:05.00000004Z","claimed":true}]},"session":"000007","from":{"pid":100,"start_ns":"1000"},"to":{"pid":1,"start_ns":"10"}}`},
		{tracer.Event{Type: tracer.EventReaped, Looks: five, After: dead, ExitStatus: 3 << 8},
			`"type":"reaped",` + ran + `"state":"exited",` + began + `,"exited":"2026-01-02T03:04:05.000000045Z","exit_code":3},"session":"000007"}`},
		{tracer.Event{Type: tracer.EventSession, State: tracer.StateEnding, Cause: tracer.CauseIdle},
			`"type":"session","session":"000007","state":"ending","reason":"idle"}`},
		{tracer.Event{Type: tracer.EventLost, Count: 3, Since: 40},
			`"type":"lost","session":"000007","count":3,"where":"ring","since_ns":"40","until_ns":"50"}`},
		{tracer.Event{Type: tracer.EventLost},
			`"type":"lost","session":"000007","where":"restart","until_ns":"50"}`},
	} {
		c.event.Time, c.event.Session, c.event.Process = 50, session, id(101)
		same(t, Event(Fixed(zero), 8, &c.event, user(5)), `{"kind":"event","seq":"8","time_ns":"50","time":"2026-01-02T03:04:05.00000005Z",`+c.want)
	}
}
