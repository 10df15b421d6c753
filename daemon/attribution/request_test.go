//go:build linux

package attribution

import (
	"testing"
	"time"
)

// What a broker begins long after a request, or after its client has exited, is not the request's. An
// exact name proves it as long as the client lives.
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
	} {
		e := &request{Asked: asked}
		if c.left != 0 {
			e.Left = asked + uint64(c.left)
		}
		if got := e.within(asked+uint64(c.start), c.named); got != c.want {
			t.Errorf("%s, named %v: %v", c.what, c.named, got)
		}
	}
}
