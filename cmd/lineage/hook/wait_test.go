package hook

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

const unheard = "no daemon answers"

// At its start an agent waits for a daemon that is being started or restarted. Nobody waits for a
// socket that is not there, and a tool call for none that refuses.
func TestWaits(t *testing.T) {
	starting := api.NewError(api.CodeStarting, "the daemon starts", "")
	for _, tt := range []struct {
		name  string
		err   error
		tries int
	}{
		{"SessionStart", nobody(syscall.ECONNREFUSED), 4},
		{"SessionStart", nobody(syscall.ECONNRESET), 4},
		{"SessionStart", starting, 4},
		{"SessionStart", nobody(syscall.ENOENT), 1},
		{"SessionStart", nobody(syscall.EACCES), 1},
		{"SessionStart", &api.UnreachableError{Socket: "sock", Err: api.ErrNotLineage}, 1},
		{"PreToolUse", nobody(syscall.ECONNREFUSED), 1},
		{"PostToolUse", starting, 1},
		{"Stop", nobody(syscall.ECONNREFUSED), 1},
	} {
		f := newFake(inClaude, "")
		f.deaf, f.deafWith = 3, tt.err
		message := f.call(t, tt.name)
		if f.dialed != tt.tries || len(f.Got.Created) != tt.tries/4 {
			t.Errorf("%s, %v: %d connections, want %d; created %+v; message %q", tt.name, tt.err, f.dialed, tt.tries, f.Got.Created, message)
		}
	}
}

// How long a hook waits for a daemon that accepts and does not answer.
func TestPatience(t *testing.T) {
	for _, name := range events {
		f := newFake(inClaude, "")
		var limit time.Duration
		f.call(t, name, func(h *Hook) {
			h.Dial = func(ctx context.Context) (api.Client, error) {
				end, _ := ctx.Deadline()
				limit = time.Until(end)
				return nil, context.DeadlineExceeded
			}
		})
		if start := name == "SessionStart"; limit > startPatience || limit > patience != start {
			t.Errorf("%s waits %v", name, limit)
		}
	}
}

// Without a daemon the user hears so once. A tool call waits in vain a few times after each start if the daemon
// hangs, and is tried each time if none listens, which takes no time.
func TestUnanswered(t *testing.T) {
	note := noteIn(t.TempDir())
	f := newFake(inClaude, "")
	call := func(name string, err error, dials, says int) {
		t.Helper()
		before := f.dialed
		f.deaf, f.deafWith = 1000, err
		if err == nil {
			f.deaf = 0
		}
		message := f.call(t, name, with(note))
		if f.dialed-before != dials || strings.Count(message, unheard) != says || says == 0 && message != "" {
			t.Errorf("%s: %d connections, want %d; message %q", name, f.dialed-before, dials, message)
		}
	}
	hangs, gone := context.DeadlineExceeded, nobody(syscall.ENOENT)
	call("Stop", gone, 1, 1)
	call("Stop", gone, 1, 0)
	for range 2 { // starts
		call("SessionStart", hangs, 1, 0)
		for range 2 * mostMissed {
			call("PreToolUse", gone, 1, 0)
		}
		for range mostMissed {
			call("PreToolUse", hangs, 1, 0)
		}
		call("PreToolUse", hangs, 0, 0)
		call("PostToolUse", gone, 0, 0)
	}
	call("Stop", hangs, 1, 0)

	call("SessionStart", gone, 1, 0)
	call("PreToolUse", nil, 1, 0)
	if len(f.Got.Created) != 1 || len(f.Got.Marks) != 1 {
		t.Errorf("the daemon answers again: created %+v, marked %+v", f.Got.Created, f.Got.Marks)
	}
	call("SessionStart", gone, 1, 1)
}

// Where nothing can be kept it is said once for each start.
func TestUnansweredAnywhere(t *testing.T) {
	for dir, want := range map[string]string{t.TempDir(): "1000", "": "1100"} {
		var got strings.Builder
		for _, name := range []string{"SessionStart", "SessionStart", "Stop", "Stop"} {
			f := newFake(inClaude, "")
			f.deaf, f.deafWith = 1, nobody(syscall.ENOENT)
			message := f.call(t, name, with(noteIn(dir)))
			got.WriteString(map[bool]string{true: "1", false: "0"}[strings.Contains(message, unheard)])
		}
		if got.String() != want {
			t.Errorf("XDG_RUNTIME_DIR %q: said %s, want %s", dir, got.String(), want)
		}
	}
}
