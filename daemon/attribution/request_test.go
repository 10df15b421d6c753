//go:build linux

package attribution

import (
	"strings"
	"testing"
	"time"
)

// What a broker begins long after a request, or after its client has exited, is not the request's. An
// exact name proves it as long as the client lives. A client waits for its command from its exec to its end, and a little
// longer if it was interrupted; not forever.
func TestWithin(t *testing.T) {
	const asked = uint64(time.Minute)
	for _, c := range []struct {
		what  string
		left  time.Duration // of the client, after the request; 0: it lives
		start time.Duration // of the process, after the request
		named bool
		want  bool
	}{
		{"before the request", 0, -1, false, false},
		{"before the request", 0, -1, true, false},
		{"at once", 0, 0, false, true},
		{"soon", 0, 5 * settling, false, true},
		{"late", 0, 5*settling + 1, false, false},
		{"late", 0, time.Hour, true, true},
		{"soon after the client", time.Second, time.Second + settling, false, true},
		{"long after the client", time.Second, time.Second + settling + 1, false, false},
		{"soon after the client", time.Hour, time.Hour + settling, true, true},
		{"long after the client", time.Hour, time.Hour + settling + 1, true, false},
		{"soon after the client, but long after the request", time.Hour, time.Hour + settling, false, false},
		{"command before the request", 0, -1, false, false},
		{"command", 0, 0, false, true},
		{"command in time", 0, patience, false, true},
		{"command, late", 0, patience + 1, false, false},
		{"command at the end of the client", time.Second, time.Second, false, true},
		{"command after the client", time.Second, time.Second + 1, false, false},
		{"command, interrupted", time.Second, time.Second + settling, false, true},
		{"command, interrupted long ago", time.Second, time.Second + settling + 1, false, false},
	} {
		e := &request{Asked: asked}
		e.Interrupted = strings.HasPrefix(c.what, "command, interrupted")
		if strings.HasPrefix(c.what, "command") {
			e.Command = "sum"
		}
		if c.left != 0 {
			e.Left = asked + uint64(c.left)
		}
		if got := e.within(asked+uint64(c.start), c.named); got != c.want {
			t.Errorf("%s, named %v: %v", c.what, c.named, got)
		}
	}
}
