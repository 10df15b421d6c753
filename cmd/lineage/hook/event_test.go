package hook

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// An agent that writes a large event must not get an error for it.
func TestLargeEvent(t *testing.T) {
	large := strings.Repeat("x", mostBytes+1)
	for what, tt := range map[string]struct {
		event string
		dials int
	}{
		"too much":    {`{"hook_event_name": "Stop", "tool_input": "` + large + `"}`, 0},
		"much":        {`{"hook_event_name": "Stop", "tool_input": "` + large[:mostBytes/2] + `"}`, 1},
		"much behind": {`{"hook_event_name": "Stop"}` + large, 1},
		"no event":    {large, 0},
	} {
		f := newFake(inClaude, "mine00")
		r, w, err := os.Pipe()
		require.NoError(t, err)
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(w, tt.event)
			w.Close()
			wrote <- err
		}()
		f.call(t, "", func(h *Hook) { h.In = r })
		patience := time.AfterFunc(30*time.Second, func() { r.Close() })
		if what != "much behind" { // there the rest is read beside the work
			r.Close()
		}
		err = <-wrote
		patience.Stop()
		if err != nil || f.dialed != tt.dials {
			t.Errorf("%s: %v; %d connections, want %d", what, err, f.dialed, tt.dials)
		}
	}
}

// A pipe that stays open delays nothing once the event is there, and nobody waits for an event for long.
func TestOpenPipe(t *testing.T) {
	for event, created := range map[string]int{`{"hook_event_name": "SessionStart"}`: 1, "": 0} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		_, err = io.WriteString(w, event)
		require.NoError(t, err)
		f := newFake(inClaude, "")
		f.call(t, "", func(h *Hook) { h.In = r })
		if len(f.Got.Created) != created {
			t.Errorf("%q: created %+v", event, f.Got.Created)
		}
	}
}

// Anything but an event of an agent does nothing.
func TestGarbage(t *testing.T) {
	for _, in := range []string{"", "hello", "[]", "{}", `{"hook_event_name": 7}`, `{"hook_event_name": "Notification"}`,
		`{"hook_event_name": "Stop"`, strings.Repeat("\x00", 1000)} {
		f := newFake(inClaude, "")
		message := f.call(t, "", func(h *Hook) { h.In = strings.NewReader(in) })
		if f.dialed > 0 || message != "" {
			t.Errorf("%q: %d connections, the message %q", in, f.dialed, message)
		}
	}
}

// A call without an id has the same one at its beginning and at its end, and does not reveal its input.
func TestID(t *testing.T) {
	begin := event{Name: "PreToolUse", Session: "s", Tool: "Bash", Input: []byte(`{"command":"login --token=secret"}`)}
	end := begin
	end.Name = "PostToolUse"
	other := begin
	other.Input = []byte(`{}`)
	elsewhere := begin
	elsewhere.Session = "t"
	if id := begin.id(); id != end.id() || id == other.id() || id == elsewhere.id() || strings.Contains(id, "secret") || len(id) > mostID {
		t.Errorf("%q, %q, %q", id, end.id(), other.id())
	}
	begin.Call = strings.Repeat("ü\n", 100)
	if id := begin.id(); len(id) > mostID || strings.Contains(id, "\n") {
		t.Errorf("%q", id)
	}
}

// A tool that starts a subagent has no mark: what the subagent starts would belong to two calls. Any other has one,
// however long its name is.
func TestSubagent(t *testing.T) {
	for tool, marks := range map[string]int{"Bash": 1, "Agent": 0, "Task": 0, "mcp__one__Agent": 1, strings.Repeat("x", 2*mostTool): 1} {
		for _, name := range []string{"PreToolUse", "PostToolUse"} {
			f := newFake(inClaude, "mine00")
			f.call(t, name, func(h *Hook) {
				h.In = strings.NewReader(`{"hook_event_name": "` + name + `", "tool_name": "` + tool + `", "tool_use_id": "one"}`)
			})
			if len(f.Got.Marks) != marks || marks > 0 && len(f.Got.Marks[0].Tool) > mostTool {
				t.Errorf("%s of %s: marked %+v", name, tool, f.Got.Marks)
			}
		}
	}
}
