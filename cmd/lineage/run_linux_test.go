package main

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
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

func TestRunOptions(t *testing.T) {
	plain := supervise.Options{OnExit: "end", Subreaper: true, Leaks: supervise.LeakCheck{After: 200 * time.Millisecond}}
	with := func(change func(*supervise.Options)) supervise.Options {
		o := plain
		change(&o)
		return o
	}
	none, minute := time.Duration(0), time.Minute
	for _, tt := range []struct {
		line string
		args string
		want supervise.Options
	}{
		{"run -- true", "true", plain},
		{"run true", "true", plain},
		{"run sh -c -x --name y", "sh -c -x --name y", plain},
		{"run -q -- -- x", "-- x", with(func(o *supervise.Options) { o.Quiet = true })},
		{"run --name build --user nobody true", "true", with(func(o *supervise.Options) { o.Name, o.User = "build", "nobody" })},
		{"run --name x --exclusive wait", "wait", with(func(o *supervise.Options) { o.Name, o.Exclusive = "x", "fail" })},
		{"run --name x --exclusive=wait true", "true", with(func(o *supervise.Options) { o.Name, o.Exclusive = "x", "wait" })},
		{"run --grace 0s true", "true", with(func(o *supervise.Options) { o.Grace = &none })},
		{"run --grace 1m --report r.json true", "true", with(func(o *supervise.Options) { o.Grace, o.Report = &minute, "r.json" })},
		{"run --spare root true", "true", with(func(o *supervise.Options) { o.Spare = "root" })},
		{"run --leaks fail --leaks-after 1s true", "true", with(func(o *supervise.Options) { o.Leaks = supervise.LeakCheck{Fail: true, After: time.Second} })},
		{"run --signals session true", "true", with(func(o *supervise.Options) { o.Confine = true })},
		{"run --signals any true", "true", plain},
		{"run --on-exit report --subreaper=false --quiet true", "true", with(func(o *supervise.Options) { o.OnExit, o.Subreaper, o.Quiet = "report", false, true })},
	} {
		w, got := runWorld(t)
		code, stdout, stderr := w.run(strings.Fields(tt.line)...)
		if code != 42 || stdout != "" || stderr != "" {
			t.Errorf("%s: exit %d, %s%s", tt.line, code, stdout, stderr)
		}
		if args := strings.Join(got.Args, " "); args != tt.args {
			t.Errorf("%s: runs %q, want %q", tt.line, args, tt.args)
		}
		got.Args, got.Env, got.Connect, got.Dial, got.Ending = nil, nil, nil, nil, nil
		if !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.line, *got, tt.want)
		}
	}
}

// A mistake in a command line has one line and a code, and nothing runs: every failure of ours before CMD is 125.
func TestErrorsOnLinux(t *testing.T) {
	transcript(t, "errors on Linux", func() *world {
		w := newWorld(t, newFake())
		w.host.commands = withoutEffect
		return w
	})
}

// withoutEffect are commands that can do nothing.
func withoutEffect(a *app) []*cobra.Command {
	return []*cobra.Command{a.runCommand(nil, nil), a.initCommand(nil), a.timeoutCommand(nil, nil), a.daemonCommand(nil, nil)}
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

func TestInit(t *testing.T) {
	for _, tt := range []struct {
		line, args, report string

		grace time.Duration // -1: not given
		quiet bool
	}{
		{line: "init -- true", args: "true", grace: -1},
		{line: "init sh -c -x -q", args: "sh -c -x -q", grace: -1},
		{line: "init -q --grace 0s --report r.json -- x --grace 1s", args: "x --grace 1s", report: "r.json", quiet: true},
	} {
		w := newWorld(t, newFake())
		var got *supervise.Options
		w.host.commands = func(a *app) []*cobra.Command {
			return []*cobra.Command{a.initCommand(func(_ context.Context, o supervise.Options) int { got = &o; return 42 })}
		}
		code, stdout, stderr := w.run(strings.Fields(tt.line)...)
		if code != 42 || stdout+stderr != "" || got == nil {
			t.Errorf("%s: exit %d, %s%s", tt.line, code, stdout, stderr)
			continue
		}
		grace := time.Duration(-1)
		if got.Grace != nil {
			grace = *got.Grace
		}
		if args := strings.Join(got.Args, " "); args != tt.args || grace != tt.grace || got.Report != tt.report || got.Quiet != tt.quiet {
			t.Errorf("%s: %+v", tt.line, got)
		}
	}
}
