package display

import (
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

const (
	leastCPUs = 0.05 // that are worth a word
	mostPorts = 8    // are named of one call
)

// CallNames are the ids of calls that may have started the same processes.
func CallNames(calls []api.Call) string {
	ids := Some(calls, mostCalls, func(c *api.Call) string { return Text(c.ID) })
	return strings.Join(ids, " or ")
}

// Took is how long calls took, from the first beginning to the last end, and when that was.
func Took(calls []api.Call) (took string, ended *time.Time) {
	var began *time.Time
	for _, c := range calls {
		if c.Ended == nil {
			return "open", nil
		}
		if began == nil || c.Began != nil && c.Began.Before(*began) {
			began = c.Began
		}
		if ended == nil || c.Ended.After(*ended) {
			ended = c.Ended
		}
	}
	if began == nil || ended == nil {
		return "-", ended
	}
	return Duration(ended.Sub(*began)), ended
}

// Runs says what is alive of a call: "39 × yes, 2 × node server.js, 3 more".
func Runs(c *api.CallLeft, columns int) string {
	var all []string
	for i := range c.Commands {
		x := &c.Commands[i]
		all = append(all, fmt.Sprintf("%d × %s", x.Processes,
			Brief(x.Argv, x.Comm, x.ArgvTruncated, columns)))
	}
	if c.MoreRun > 0 {
		all = append(all, fmt.Sprintf("%d more", c.MoreRun))
	}
	return strings.Join(all, ", ")
}

// Left says what a call has left: "call Bash toolu_1, 8h0m ago, left 39 × yes, 7.0 CPUs, port 80".
func Left(c *api.CallLeft, now time.Time, columns int) string {
	what := "call " + Call(&c.Calls[0])
	if c.Ambiguous {
		what = fmt.Sprintf("one of %d calls (%s)", len(c.Calls), CallNames(c.Calls))
	}
	if _, ended := Took(c.Calls); ended != nil {
		what += ", " + Age(now.Sub(*ended)) + " ago, left "
	} else {
		what += ", open: "
	}
	parts := []string{what + Runs(c, columns)}
	if c.CPUs >= leastCPUs {
		parts = append(parts, fmt.Sprintf("%.1f CPUs", c.CPUs))
	}
	ports := Some(c.Ports, mostPorts, func(port *int) string { return fmt.Sprintf("port %d", *port) })
	return strings.Join(append(parts, ports...), ", ")
}
