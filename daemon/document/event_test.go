package document

import (
	"testing"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestEvent(t *testing.T) {
	comm := tracer.Comm{'s', 'h'}
	killed := &lineage.Signal{Number: 15, Sender: lineage.ByProcess, Time: 40, By: id(102), Session: session, UID: 5, Comm: "pkill", Handled: true, Raised: true}
	for _, c := range []struct {
		event tracer.Event
		want  string
	}{
		{tracer.Event{Type: tracer.EventBirth, Process: id(101), Creator: id(100), Parent: id(1), Evidence: tracer.EvidenceFork, Comm: comm, UID: 5},
			`"type":"fork","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","comm":"sh","uid":5,"state":"live","creator":{"pid":100,"start_ns":"1000"},"parent":{"pid":1,"start_ns":"10"},"started":"2026-01-02T03:04:05.00000101Z","evidence":{"kind":"fork","confidence":"strong"}}}`},
		{tracer.Event{Type: tracer.EventExec, Process: id(101), Comm: comm, UID: 5, Filename: []byte("/bin/sh"), Argv: []byte("sh\x00-c\x00")},
			`"type":"exec","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","comm":"sh","exe":"/bin/sh","argv":["sh","-c"],"uid":5,"state":"live"}}`},
		{tracer.Event{Type: tracer.EventExec, Process: id(101), Comm: comm, UID: 6, Argv: []byte("sh\x00"), ArgvTruncated: true},
			`"type":"exec","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","comm":"sh","uid":6,"state":"live"}}`},
		{tracer.Event{Type: tracer.EventExit, Process: id(101), ExitStatus: 3 << 8, CPUTime: 5e8, MaxRSS: 6},
			`"type":"exit","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","state":"zombie","exited":"2026-01-02T03:04:05.00000005Z","exit_code":3,"cpu_seconds":0.5,"rss_bytes":6}}`},
		{tracer.Event{Type: tracer.EventExit, Process: id(101), Evidence: tracer.EvidenceReconciled, ExitStatus: 3 << 8},
			`"type":"exit","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","state":"zombie","exited":"2026-01-02T03:04:05.00000005Z","evidence":{"kind":"reconciled","source":"iterator","confidence":"strong"}}}`},
		{tracer.Event{Type: tracer.EventExit, Process: id(101), ExitStatus: 15, Signal: killed},
			`"type":"exit","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","state":"zombie","exited":"2026-01-02T03:04:05.00000005Z","signal":"SIGTERM","killer":{"signal":"SIGTERM","kind":"process","time":"2026-01-02T03:04:05.00000004Z","process":{"pid":102,"start_ns":"1020","session":"000007","comm":"pkill","uid":5},"handled":true,"raised":true}}}`},
		{tracer.Event{Type: tracer.EventExit, Process: id(101), ExitStatus: 15, Flags: tracer.FlagTermed, Signal: &lineage.Signal{Number: 15, Sender: lineage.ByProcess, By: id(101)}},
			`"type":"exit","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","state":"zombie","exited":"2026-01-02T03:04:05.00000005Z","signal":"SIGTERM","killer":{"signal":"SIGTERM","kind":"lineage","handled":true,"raised":true}}}`},
		{tracer.Event{Type: tracer.EventExit, Process: id(101), ExitStatus: 9, Flags: tracer.FlagKilled},
			`"type":"exit","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","state":"zombie","exited":"2026-01-02T03:04:05.00000005Z","signal":"SIGKILL","killer":{"signal":"SIGKILL","kind":"lineage"}}}`},
		{tracer.Event{Type: tracer.EventStop, Process: id(101), Signal: &lineage.Signal{Number: 40, Sender: lineage.ByKernel, Time: 40}},
			`"type":"stop","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007"},"sent":{"signal":"SIGRTMIN+6","kind":"kernel","time":"2026-01-02T03:04:05.00000004Z"}}`},
		{tracer.Event{Type: tracer.EventCrossing, Process: id(101), Comm: comm, Crossing: &tracer.Crossing{Signal: 15, Refused: true, To: id(102), Session: session, UID: 5, Comm: "db"}},
			`"type":"crossing","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","comm":"sh"},"crossing":{"signal":"SIGTERM","to":{"pid":102,"start_ns":"1020","session":"000007","comm":"db","uid":5},"refused":true}}`},
		{tracer.Event{Type: tracer.EventReparent, Process: id(101), From: id(100), Parent: id(1)},
			`"type":"reparent","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007"},"from":{"pid":100,"start_ns":"1000"},"to":{"pid":1,"start_ns":"10"}}`},
		{tracer.Event{Type: tracer.EventReaped, Process: id(101)},
			`"type":"reaped","session":"000007","process":{"pid":101,"start_ns":"1010","session":"000007","state":"exited"}}`},
		{tracer.Event{Type: tracer.EventSession, State: tracer.StateEnding, Cause: tracer.CauseIdle},
			`"type":"session","session":"000007","state":"ending","reason":"idle"}`},
		{tracer.Event{Type: tracer.EventLost, Count: 3, Since: 40},
			`"type":"lost","session":"000007","count":3,"where":"ring","since_ns":"40","until_ns":"50"}`},
		{tracer.Event{Type: tracer.EventLost},
			`"type":"lost","session":"000007","where":"restart","until_ns":"50"}`},
	} {
		c.event.Time, c.event.Session = 50, session
		same(t, Event(Fixed(zero), 8, &c.event, user(5)), `{"kind":"event","seq":"8","time_ns":"50","time":"2026-01-02T03:04:05.00000005Z",`+c.want)
	}
}
