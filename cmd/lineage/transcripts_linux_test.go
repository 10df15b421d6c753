package main

import (
	"context"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

// TestTranscripts: what command lines print, and ask of the daemon or of the commands of this system. A mistake has one line
// and a code, and nothing runs and nothing is asked: every failure of ours before CMD is 125.
func TestTranscripts(t *testing.T) {
	for name, change := range map[string]func(*apitest.Client){
		"options on Linux": nil, "errors on Linux": nil, "requests": nil,
		"calls":  func(f *apitest.Client) { f.Has.Orphans = leftCalls(f) },
		"select": func(f *apitest.Client) { f.Has, f.On = selectable().Has, selectable().On },
		"opened": func(f *apitest.Client) {
			f.Has.Warnings = []string{"pid 5 (rootd) and its descendants are not adopted: it runs as uid 0"}
		},
		"plan refused": func(f *apitest.Client) {
			f.On.Plan = func(p *api.Plan) error {
				p.RefusedBy, p.Token = "pid 4121 is an ancestor of the caller", ""
				return nil
			}
		},
		"still ending": func(f *apitest.Client) {
			f.On.End = begun
			f.On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
				return begun(id, api.EndRequest{})
			}
		},
		"left": func(f *apitest.Client) {
			f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) {
				return &api.Report{Session: id, State: "condemned", Verdict: "left", VerdictWhy: "1 process in state D", DurationMS: 10000, Left: 1,
					Processes: []api.Outcome{{Ref: ref(4401), Comm: "sleep", Container: &api.Container{Name: "db\x1b"}, Outcome: "kill"},
						{Ref: ref(4417), Outcome: "left", Why: "in state D"}}}, nil
			}
		},
		"unknown": func(f *apitest.Client) {
			f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) {
				return &api.Report{Session: id, State: "ended", Verdict: "unknown", VerdictWhy: "a birth was missed"}, nil
			}
		},
		"completes": func(f *apitest.Client) {
			f.Has.Sessions[0].Ports = []int{8123, 8200}
			f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: "aaaaaa", Name: "new", State: "ended", Ended: at(-60)},
				api.Session{ID: "bbbbbb", State: "ended", Ended: at(-9999)})
		},
		"listed": func(f *apitest.Client) { // by its age at its end, its first command, its container
			f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: "b5hort", State: "ended", Started: at(-7200), Ended: at(-7190)})
			root := f.Has.Sessions[0].Root
			root.FirstArgv, root.Argv, root.Comm = []string{"bash", "-c", "sleep 99 && x"}, []string{"sleep", "99"}, "sleep"
			f.Has.Sessions[0].Container = &api.Container{ID: "0123456789ab", Name: "web"}
			f.Has.Sessions[1].Container = &api.Container{Name: "aa\x1b", Pod: "p", Namespace: "n"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			transcript(t, name, func() *world {
				f := newFake()
				if change != nil {
					change(f)
				}
				w := newWorld(t, f)
				w.host.commands = recorded
				return w
			})
		})
	}
	transcript(t, "hosts", func() *world { return fleet(t, twoHosts()) })
}
