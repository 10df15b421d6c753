package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

// fake is a daemon, and the processes above the hook.
type fake struct {
	*apitest.Client
	above    []api.Process
	member   string // the session of the hook and of the agent
	deaf     int    // connections that fail first
	deafWith error  // in this way
	dialed   int    // connections
	busy     int    // another hook adopts the agent, and comes to this one after this number of requests
}

const self = 50 // the hook's PID

func newFake(above []api.Process, member string) *fake {
	f := &fake{Client: &apitest.Client{}, above: above, member: member}
	f.On = apitest.On{
		Process: func(ref string) (*api.Process, error) {
			r, err := api.ParseRef(ref)
			return &api.Process{Ref: api.Ref{PID: r.PID, StartNS: 7}, Session: f.member}, err
		},
		Create: func(ctx context.Context, _ api.NewSession) (*api.Session, error) {
			end, limited := ctx.Deadline()
			switch {
			case !limited || time.Until(end) > startPatience:
				return nil, errors.New("the agent would wait for ever")
			case f.Refuse != nil:
				return nil, f.Refuse
			case f.busy > 0:
				return nil, api.NewError(api.CodeBusyName, "in use", "")
			}
			f.member = "a1b2c3"
			return nil, nil
		},
		Mark: func(api.MarkRequest) error {
			if f.busy > 0 {
				if f.busy--; f.busy == 0 {
					f.member = "a1b2c3"
				}
			}
			if f.member == "" {
				return api.NewError(api.CodeDenied, "the caller is not in a session", "")
			}
			return nil
		},
	}
	return f
}

// nobody is what a connection to a socket without a daemon returns.
func nobody(errno syscall.Errno) error { return &api.UnreachableError{Socket: "sock", Err: errno} }

func (f *fake) call(t *testing.T, name string, change ...func(*Hook)) (message string) {
	t.Helper()
	event := fmt.Sprintf(`{"hook_event_name": %q, "session_id": "s", "tool_name": "Bash", "tool_use_id": "one"}`, name)
	agent, _ := Find("claude-code")
	var out strings.Builder
	h := Hook{
		Agent: agent, In: strings.NewReader(event), Out: &out, PID: self,
		Note:      noteIn(t.TempDir()),
		Ancestors: func(int) []api.Process { return f.above },
		Dial: func(context.Context) (api.Client, error) {
			if f.dialed++; f.dialed <= f.deaf {
				return nil, f.deafWith
			}
			return f.Client, nil
		},
	}
	for _, c := range change {
		c(&h)
	}
	h.Run(t.Context())
	if out.Len() == 0 {
		return ""
	}
	var answer struct{ SystemMessage string }
	if err := json.Unmarshal([]byte(out.String()), &answer); err != nil || answer.SystemMessage == "" {
		t.Errorf("%s: the message %q: %v", name, out.String(), err)
	}
	return answer.SystemMessage
}

func process(pid int, comm string, argv ...string) api.Process {
	return api.Process{Ref: api.Ref{PID: pid, StartNS: 7}, Comm: comm, Argv: argv}
}

// inClaude is a hook's place: below a shell of the agent, in a terminal.
var inClaude = []api.Process{process(41, "sh"), process(40, "claude", "claude"), process(30, "bash"), process(20, "tmux: server", "tmux")}

func with(note *Note) func(*Hook) { return func(h *Hook) { h.Note = note } }

// noteIn is a note in that directory, if it may be used.
func noteIn(runtime string) *Note {
	return NewNote(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": runtime}[name] }, "note")
}

// events are all that the hook knows.
var events = slices.Sorted(maps.Keys(verbs))
