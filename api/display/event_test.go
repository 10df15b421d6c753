package display

import (
	"fmt"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

func TestAbout(t *testing.T) {
	trace := &api.Process{Trace: &api.Trace{TraceID: "4b\x1b", SpanID: "00"}}
	for want, ev := range map[string]api.Event{
		"":                                      {Type: api.EventReaped, Process: trace},
		"tcp 127.0.0.1:80":                      {Type: api.EventListen, Port: &api.Port{Proto: "tcp", Addr: "127.0.0.1", Port: 80}},
		"tool call Bash 7 (claimed)":            {Type: api.EventMark, Call: &api.Call{ID: "7", Tool: "Bash"}},
		"3 events in 20ms, ring":                {Type: api.EventLost, Count: 3, Where: "ring", SinceNS: 1, UntilNS: api.U64(20 * time.Millisecond)},
		`trace 4b\x1b, below span 00 (claimed)`: {Type: api.EventTrace, Process: trace},
		"by 7 x":                                {Type: api.EventFork, Process: &api.Process{Creator: &api.Ref{PID: 7}, Parent: &api.Ref{PID: 7}}},
		"by 7 x parent 1 x":                     {Type: api.EventFork, Process: &api.Process{Creator: &api.Ref{PID: 7}, Parent: &api.Ref{PID: 1}}},
		"from 7 x to 1 x":                       {Type: api.EventReparent, From: &api.Ref{PID: 7}, To: &api.Ref{PID: 1}},
		"exited 3":                              {Type: api.EventExit, Process: &api.Process{ExitCode: new(3)}},
		"web ended root_exit":                   {Type: api.EventSession, Subject: &api.Session{Name: "web"}, State: api.StateEnded, Reason: "root_exit"},
		"no events are kept from before this time (restart)": {Type: api.EventLost, Where: "restart"},
	} {
		if got := About(&ev, func(r api.Ref) string { return fmt.Sprint(r.PID, " x") }); got != want {
			t.Errorf("%s: %q, want %q", ev.Type, got, want)
		}
	}
}
