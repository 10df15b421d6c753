//go:build linux

package daemontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// Events reads a stream; close it to disconnect.
type Events struct {
	*testing.T
	Scan  *bufio.Scanner
	Close func()
}

// Events opens a stream of events.
func (d *Daemon) Events(who, query string) *Events {
	d.Helper()
	scan, closeIt := d.Open(who, "/v1/events"+query)
	return &Events{d.T, scan, closeIt}
}

// Next returns the next line except heartbeats; nil at the end.
func (l *Events) Next() *api.Event {
	l.Helper()
	defer Bound(l.T, l.Close)()
	for l.Scan.Scan() {
		ev := new(api.Event)
		if err := json.Unmarshal(l.Scan.Bytes(), ev); err != nil {
			l.Fatalf("%v: %s", err, l.Scan.Bytes())
		}
		if ev.Kind != "heartbeat" {
			return ev
		}
	}
	return nil
}

// Want reads lines until what is expected, each as "TYPE PID" or "KIND".
func (l *Events) Want(all ...string) {
	l.Helper()
	for _, want := range all {
		ev := l.Next()
		if ev == nil {
			l.Fatalf("the stream ended before %q", want)
		}
		got := ev.Kind
		switch {
		case ev.Kind == "process":
			got = fmt.Sprintf("process %d", ev.Process.PID)
		case ev.Kind == "end":
			got = "end " + ev.Reason
		case ev.Type == api.EventSession:
			got = "session " + string(ev.State)
		case ev.Type == api.EventLost:
			got = fmt.Sprintf("lost %s %d", ev.Where, ev.Count)
		case ev.Process != nil:
			got = fmt.Sprintf("%s %d", ev.Type, ev.Process.PID)
		}
		if got != want {
			l.Fatalf("got %q, want %q", got, want)
		}
	}
}
