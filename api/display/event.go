package display

import (
	"cmp"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// lost says what an event of type lost reports. An event without a count is a restart
// of the daemon, or the beginning of what the history has.
func lost(ev *api.Event) string {
	if ev.Count == 0 {
		return "no events are kept from before this time (" + Text(ev.Where) + ")"
	}
	what := Count(int(ev.Count), "event")
	if ev.SinceNS != 0 && ev.UntilNS >= ev.SinceNS {
		what += " in " + time.Duration(ev.UntilNS-ev.SinceNS).Round(time.Millisecond).String()
	}
	return what + ", " + Text(ev.Where)
}

// About is what an event says besides its process, "" if that is all; name names other processes.
func About(ev *api.Event, name func(api.Ref) string) string {
	var words []string
	add := func(what string, ref *api.Ref) {
		if ref != nil {
			words = append(words, what+" "+name(*ref))
		}
	}
	p := ev.Process
	switch {
	case ev.Type == api.EventFork && p != nil:
		add("by", p.Creator)
		if p.Creator != nil && p.Parent != nil && *p.Parent != *p.Creator {
			add("parent", p.Parent)
		}
	case ev.Type == api.EventReparent:
		add("from", ev.From)
		add("to", ev.To)
	case ev.Type == api.EventSession:
		name := ""
		if ev.Subject != nil {
			name = ev.Subject.Name
		}
		words = strings.Fields(name + " " + string(ev.State) + " " + ev.Reason)
	case ev.Type == api.EventExit && p != nil:
		return HowEnded(p)
	case ev.Port != nil:
		return Port(ev.Port)
	case ev.Sent != nil && p != nil:
		return Sender(ev.Sent, p.Ref, p.Session)
	case ev.Crossing != nil && ev.Crossing.To != nil && p != nil:
		return strings.TrimSuffix(Crossing(ev.Crossing)+"; "+Calls(p.Calls), "; ")
	case ev.Call != nil && ev.Call.Ended != nil:
		return "end of " + Calls([]api.Call{*ev.Call}) + Used(ev.Call)
	case ev.Moved != nil && p != nil:
		return Moved(ev.Moved, p)
	case ev.Call != nil:
		return Calls([]api.Call{*ev.Call})
	case ev.Type == api.EventTrace && p != nil:
		return cmp.Or(Trace(p.Trace), "an agent's hook, of no tool call")
	case ev.Type == api.EventLost:
		return lost(ev)
	}
	return Text(strings.Join(words, " "))
}
