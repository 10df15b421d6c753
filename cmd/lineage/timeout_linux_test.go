package main

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// timeoutLine runs a command line whose command is only recorded.
func timeoutLine(t *testing.T, line string) (code int, stderr, args string, l supervise.Limit) {
	w := newWorld(t, newFake())
	w.host.commands = func(a *app) []*cobra.Command {
		run := func(_ context.Context, o supervise.Options, of supervise.Limit) int {
			args, l = strings.Join(o.Args, " "), of
			return 42
		}
		return []*cobra.Command{a.timeoutCommand(run, a.dial)}
	}
	code, _, stderr = w.run(strings.Fields("timeout " + line)...)
	return code, stderr, args, l
}

func TestTimeoutLimit(t *testing.T) {
	const term, most = unix.SIGTERM, time.Duration(math.MaxInt64)
	for line, want := range map[string]supervise.Limit{
		"10 true":                       {After: 10 * time.Second, Signal: term},
		"0 true":                        {Signal: term},
		".25s true":                     {After: 250 * time.Millisecond, Signal: term},
		"1e-1m true":                    {After: 6 * time.Second, Signal: term},
		"1.5h true":                     {After: 90 * time.Minute, Signal: term},
		"2d true":                       {After: 48 * time.Hour, Signal: term},
		"0.0000000001 true":             {After: 1, Signal: term},
		"9223372036854775808d true":     {After: most, Signal: term},
		"1e5000 true":                   {After: most, Signal: term},
		"inf true":                      {After: most, Signal: term},
		"0x1d true":                     {After: 29 * time.Second, Signal: term},
		"0x1p1m true":                   {After: 2 * time.Minute, Signal: term},
		"-k5 -sINT 1 true":              {After: time.Second, KillAfter: 5 * time.Second, Signal: unix.SIGINT},
		"-vk 5 --signal=sigusr1 1 true": {After: time.Second, KillAfter: 5 * time.Second, Signal: unix.SIGUSR1, Verbose: true},
		"--kill-after=1m -s 9 1 true":   {After: time.Second, KillAfter: time.Minute, Signal: unix.SIGKILL},
		"-s0 --foreground 1 true":       {After: time.Second, Foreground: true},
		"-s EXIT 1 true":                {After: time.Second},
		"-s rtmin+1 1 true":             {After: time.Second, Signal: 35},
		"-s RTMAX-1 1 true":             {After: time.Second, Signal: 63},
		"-s SIGRTMIN 1 true":            {After: time.Second, Signal: 34},
		"--preserve-status -- 1 true":   {After: time.Second, Signal: term, Preserve: true},
		"--sig INT --kill-aft=.5 --pres --f --ver 1 true": {
			After: time.Second, KillAfter: time.Second / 2, Signal: unix.SIGINT, Preserve: true, Foreground: true, Verbose: true,
		},
	} {
		code, stderr, args, l := timeoutLine(t, line)
		if code != 42 || stderr != "" || args != "true" || l != want {
			t.Errorf("%s: exit %d, %s, runs %q, %+v", line, code, stderr, args, l)
		}
	}
	_, _, args, _ := timeoutLine(t, "1 sh -k -s --foreground x")
	require.Equal(t, args, "sh -k -s --foreground x")
}
