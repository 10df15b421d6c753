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
