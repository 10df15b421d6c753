package display

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Lost says what an event of type lost reports. An event without a count is a restart
// of the daemon, or the end of what the history has.
func Lost(ev *api.Event) string {
	what := "what happened before is not known"
	if ev.Count > 0 {
		what = Count(int(ev.Count), "event", "events")
	}
	if ev.SinceNS != 0 && ev.UntilNS >= ev.SinceNS {
		what += " in " + time.Duration(ev.UntilNS-ev.SinceNS).Round(time.Millisecond).String()
	}
	return what + ", " + Text(ev.Where)
}
