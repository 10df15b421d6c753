package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
	"github.com/lineage-ebpf/lineage/daemon"
)

// runWorld is a world whose run command only records its options.
func runWorld(t *testing.T) (*world, *supervise.Options) {
	w := newWorld(t, newFake())
	var got supervise.Options
	w.host.commands = func(a *app) []*cobra.Command {
		run := func(_ context.Context, o supervise.Options) int { got = o; return 42 }
		return []*cobra.Command{a.runCommand(run, a.dial)}
	}
	return w, &got
}

// Transcripts: what command lines print, and ask of the daemon or of the commands of this system. A mistake has one line
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

// recorded are commands that only print what they were asked to do.
func recorded(a *app) []*cobra.Command {
	run := func(_ context.Context, o supervise.Options) int {
		fmt.Fprintf(a.Stdout, "%q", o.Args)
		if o.Grace != nil {
			fmt.Fprintf(a.Stdout, " grace %v", *o.Grace)
		}
		o.Args, o.Grace, o.Env, o.Connect, o.Dial, o.Ending = nil, nil, nil, nil, nil, nil
		fmt.Fprintf(a.Stdout, " %+v\n", o)
		return 42
	}
	limited := func(_ context.Context, o supervise.Options, of supervise.Limit) int {
		fmt.Fprintf(a.Stdout, "%q %+v\n", o.Args, of)
		return 42
	}
	serve := func(_ context.Context, o daemon.Options) error {
		fmt.Fprintf(a.Stdout, "self-check %t ", len(o.Canary) > 0)
		o.Canary = nil
		fmt.Fprintf(a.Stdout, "%+v\n", o)
		return nil
	}
	unload := func(_ context.Context, socket string, force bool) error {
		fmt.Fprintln(a.Stdout, socket, force)
		return nil
	}
	return []*cobra.Command{a.runCommand(run, a.dial), a.initCommand(run), a.timeoutCommand(limited, a.dial), a.daemonCommand(serve, unload)}
}

func TestRunReachesTheNamedDaemon(t *testing.T) {
	w, got := runWorld(t)
	w.vars["LINEAGE_SOCKET"] = "/tmp/env.sock"
	var asked []string
	w.dial = func(_ context.Context, socket string) (api.Client, error) {
		asked = append(asked, socket)
		return nil, nil
	}
	w.run("run", "true")
	got.Connect(t.Context())
	got.Dial(t.Context())
	if strings.Join(asked, " ") != "/tmp/env.sock /tmp/env.sock" {
		t.Errorf("asked %v", asked)
	}
}

// While the end of a session takes long, a terminal shows its progress, and nothing of
// that stays there.
func TestShowEnd(t *testing.T) {
	f := newFake()
	f.Has.Sessions[0].Live = 5
	w := newWorld(t, f)
	twice := make(chan struct{})
	second := sync.OnceFunc(func() { close(twice) })
	w.sees = func(text string) {
		if strings.Count(text, "ending build") > 1 {
			second()
		}
	}
	shown := w.terminal("")
	done := ending.Show(&w.Console, func(context.Context) (api.Client, error) { return f, nil }, &api.Session{ID: "k3x9q2", Name: "build", GraceSeconds: 60})
	<-twice
	done()
	text := shown()
	if !strings.HasPrefix(text, "\rending build: 0 of 5 gone, SIGKILL in 5") || strings.Count(text, "ending build") < 2 || !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("%q", text)
	}
	// Without a terminal, or if the end is quick, nothing is shown.
	w = newWorld(t, f)
	ending.Show(&w.Console, nil, &f.Has.Sessions[0])()
	w.During(func(time.Time) string { t.Error("asked for a line"); return "" })()
	if w.err.Len() > 0 {
		t.Errorf("%q", w.err.String())
	}
}
