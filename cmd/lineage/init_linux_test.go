package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
)

func TestInit(t *testing.T) {
	for _, tt := range []struct {
		line, args string
		grace      time.Duration // -1: not given
		report     string
		quiet      bool
		err        string
	}{
		{line: "init -- true", args: "true", grace: -1},
		{line: "init sh -c -x -q", args: "sh -c -x -q", grace: -1},
		{line: "init -q --grace 0s --report r.json -- x --grace 1s", args: "x --grace 1s", report: "r.json", quiet: true},
		{line: "init", err: `init: CMD is missing; see "lineage init --help"`},
		{line: "init --nope true", err: `init: unknown flag: --nope; see "lineage init --help"`},
		{line: "init --name x true", err: `init: unknown flag: --name; see "lineage init --help"`},
		{line: "init --grace -1s true", err: `init: invalid --grace "-1s": must be 0 to 10m`},
		{line: "init --grace 601s true", err: `init: invalid --grace "601s": must be 0 to 10m`},
	} {
		w := newWorld(t, newFake())
		var got *supervise.Options
		w.host.commands = func(a *app) []*cobra.Command {
			return []*cobra.Command{a.initCommand(func(_ context.Context, o supervise.Options) int { got = &o; return 42 })}
		}
		code, stdout, stderr := w.run(strings.Fields(tt.line)...)
		if tt.err != "" {
			if code != 125 || stdout != "" || stderr != "lineage: "+tt.err+"\n" || got != nil {
				t.Errorf("%s: exit %d, %s%s", tt.line, code, stdout, stderr)
			}
			continue
		}
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
