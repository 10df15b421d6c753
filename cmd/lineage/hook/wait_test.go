package hook

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
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

// Without a daemon the user hears so once. A tool call waits in vain a few times after each start if
// a daemon runs, and never if none does.
func TestUnanswered(t *testing.T) {
	note := noteIn(t.TempDir(), t.TempDir())
	f := newFake(inClaude, "")
	f.deaf, f.deafWith = 1000, context.DeadlineExceeded
	call := func(name string, look Listener, dials, says int) {
		t.Helper()
		before := f.dialed
		message := f.call(t, name, with(note, look))
		if f.dialed-before != dials || strings.Count(message, unheard) != says || says == 0 && message != "" {
			t.Errorf("%s: %d connections, want %d; message %q", name, f.dialed-before, dials, message)
		}
	}
	call("PreToolUse", ListenerRunning, 1, 0) // nothing is known yet
	call("PreToolUse", ListenerGone, 0, 0)
	call("Stop", ListenerGone, 1, 1)
	call("Stop", ListenerGone, 1, 0)
	for range 2 { // starts
		call("SessionStart", ListenerGone, 1, 0)
		call("PreToolUse", ListenerGone, 0, 0)
		for range mostMissed {
			call("PreToolUse", ListenerRunning, 1, 0)
		}
		call("PreToolUse", ListenerRunning, 0, 0)
		call("PostToolUse", ListenerUnknown, 0, 0)
	}
	call("Stop", ListenerRunning, 1, 0)

	call("SessionStart", ListenerGone, 1, 0)
	f.deaf = 0
	call("PreToolUse", ListenerRunning, 1, 0)
	if len(f.Got.Created) != 1 || len(f.Got.Marks) != 1 {
		t.Errorf("the daemon answers again: created %+v, marked %+v", f.Got.Created, f.Got.Marks)
	}
	f.deaf = 1000
	call("SessionStart", ListenerGone, 1, 1)
}

// Without XDG_RUNTIME_DIR it is said once, too; where nothing can be kept, once for each start.
func TestUnansweredAnywhere(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(locked, nil, 0o600))
	for tmp, want := range map[string]string{dir: "1000", locked: "1100"} {
		var got strings.Builder
		for _, name := range []string{"SessionStart", "SessionStart", "Stop", "Stop"} {
			f := newFake(inClaude, "")
			f.deaf, f.deafWith = 1, nobody(syscall.ENOENT)
			note := noteIn("", tmp)
			message := f.call(t, name, with(note, ListenerGone))
			got.WriteString(map[bool]string{true: "1", false: "0"}[strings.Contains(message, unheard)])
		}
		if got.String() != want {
			t.Errorf("TMPDIR %s: said %s, want %s", tmp, got.String(), want)
		}
	}
}
