package display

import (
	"cmp"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// lost says what an event of type lost reports. An event without a count is a restart
// of the daemon, or the beginning of what the history has.
func lost(ev *api.Event) string {
	if ev.Count == 0 {
		return "no events are kept from before this time (" + Text(ev.Where) + ")"
	}
	what := Count(int(ev.Count), "event", "events")
	if ev.SinceNS != 0 && ev.UntilNS >= ev.SinceNS {
		what += " in " + time.Duration(ev.UntilNS-ev.SinceNS).Round(time.Millisecond).String()
	}
	return what + ", " + Text(ev.Where)
}

// About is what an event says besides its process, "" if that is all. Names of other processes, and
// what a session's state is called, differ from view to view: they are not in it.
func About(ev *api.Event) string {
	switch {
	case ev.Port != nil:
		return Port(ev.Port)
	case ev.Sent != nil && ev.Process != nil:
		return Sender(ev.Sent, ev.Process.Ref)
	case ev.Crossing != nil && ev.Crossing.To != nil:
		return Crossing(ev.Crossing)
	case ev.Call != nil:
		return Mark(ev.Call)
	case ev.Type == api.EventTrace && ev.Process != nil:
		return cmp.Or(Trace(ev.Process.Trace), "an agent's hook, of no tool call")
	case ev.Type == api.EventLost:
		return lost(ev)
	}
	return ""
}
