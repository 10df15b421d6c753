//go:build linux

package library

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/run"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// An escape is a program of testdata/programs, and how many of its processes report
// that they are in place.
type escape struct {
	program string
	members int
}

// six are always tried: a daemon, an empty environment, a subreaper, a fork and exit
// chain, a leader that has exited, a process that ignores signals.
var six = []escape{
	{"daemonise stay", 1}, {"daemonise clear stay", 1}, {"subreaper", 1}, {"hop 8 20 200", 0}, {"under zombieleader", 1}, {"under ignoreterm", 1},
}

// others are tried only with LNGTEST_PROGRAMS=all.
var others = []escape{
	{"detach", 1}, {"detach orphan", 1}, {"detach setpgid", 1}, {"detach setsid", 1}, {"detach noenv", 1}, {"detach setsid scrub", 1},
	{"detach setsid nopdeath", 1}, {"detach setsid rename", 1}, {"under slowterm 1", 1}, {"hop 16 20", 0}, {"hop 8 20 5000", 0}, {"bomb 500", 0},
	{"bombactive 400 60", 0}, {"respawnpair", 1}, {"respawn", 1}, {"cloneparent 3", 3}, {"vforkexec window", 1}, {"spawn", 1}, {"under threadexec 8", 1},
	{"stopped", 1}, {"ptraced", 1}, {"pidns", 0}, {"otheruser", 2}, {"nofile memfd", 1}, {"nofile deleted", 1}, {"bigmem 600", 1}, {"under zombies 500", 0},
}

func (e escape) argv() []string {
	words := strings.Fields(e.program)
	return append([]string{stage.Program(words[0])}, words[1:]...)
}

// soon is how long a wait may take: on a busy machine more than the grace, and much less
// than the programs live.
const soon = 15 * time.Second

func environ(m *stage.Marker) []string { return slices.Concat(os.Environ(), m.Env()) }

// TestEscapes: nothing of an escape program is alive when the library has waited.
// LNGTEST_PAGE=FILE: where the table goes.
func TestEscapes(t *testing.T) {
	tried := six
	if os.Getenv("LNGTEST_PROGRAMS") == "all" {
		tried = slices.Concat(six, others)
	}
	i := stage.NewDaemon(t)
	other := stage.NewBystander(i, "library", 0)
	table := page.NewTable("library", "programs:", "left something behind:", "longest wait:")
	for _, l := range libraries {
		var slowest time.Duration
		done, left := 0, 0
		for _, e := range tried {
			t.Run(l.name+"/"+e.program, func(t *testing.T) {
				i := i.In(t)
				m := stage.NewMarker(t, i.Dir)
				s := l.start(t, i, stage.Lineage, environ(m), e.argv())
				m.Ready()
				if e.members > 0 {
					m.Members(e.members)
				}
				require.Equal(t, s.session(), i.Session("library").ID)
				r := s.finish(true)
				done++
				slowest = max(slowest, r.took)
				if m.Drain() {
					left++
				}
				m.MustBeGone()
				r.mustBeClean(t)
			})
		}
		if done > 0 {
			t.Logf("figure: %s: %d programs, %d left something; the wait took %v at most", l.name, done, left, slowest.Round(time.Millisecond))
			table.Row(l.name, strconv.Itoa(done), strconv.Itoa(left), slowest.Round(time.Millisecond).String())
		}
	}
	other.MustBeUntouched()
	if path := os.Getenv("LNGTEST_PAGE"); path != "" && !t.Failed() {
		head := fmt.Sprintf("%s, %d programs of testdata/programs, each with every library:\n\n", time.Now().UTC().Format(time.DateOnly), len(tried))
		require.NoError(t, page.Write(path, "libraries", head+table.String()))
	}
}

func (r *result) mustBeClean(t *testing.T) {
	t.Helper()
	require.Equal(t, r.Guarantee, "session")
	if r.Verdict != api.VerdictClean {
		t.Errorf("verdict %q: %s", r.Verdict, r.Why)
	}
}

// TestPipeHolder: a command that has exited leaves a process that holds its standard
// output. The wait ends that process, and returns.
func TestPipeHolder(t *testing.T) {
	i := stage.NewDaemon(t)
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			i := i.In(t)
			m := stage.NewMarker(t, i.Dir)
			s := l.start(t, i, stage.Lineage, environ(m), []string{stage.Program("holdpipe")})
			r := s.finish(false)
			m.MustBeGone()
			r.mustBeClean(t)
			require.Equal(t, r.Code, 0)
			t.Logf("figure: %s: returned after %v", l.name, r.took.Round(time.Millisecond))
		})
	}
}

// TestWithout: what os/exec, asyncio (python/cpython issue 119710) and child_process
// (nodejs/node issue 64406) leave behind, and these libraries end.
func TestWithout(t *testing.T) {
	i := stage.NewDaemon(t)
	// A shell that has a child, which holds the pipes.
	command := []string{"/bin/sh", "-c", stage.Program("detach") + " & wait"}
	for _, tt := range []struct {
		issue         string
		without, with library
		command       []string
	}{
		{"os-exec", library{start: startPlain}, libraries[0], command},
		{"cpython-119710", library{start: script("python3", "python", "driver.py", "plain")}, libraries[2], command},
		{"node-64406", library{start: script("node", "node", "driver.mjs", "plain")}, libraries[3], command[2:]}, // it starts the shell
	} {
		t.Run(tt.issue+"/without", func(t *testing.T) {
			i := i.In(t)
			m := stage.NewMarker(t, i.Dir)
			s := tt.without.start(t, i, stage.Lineage, environ(m), tt.command)
			m.Ready()
			r := s.finish(true)
			left := m.Holders()
			m.Kill()
			m.Gone()
			if len(left) == 0 {
				t.Error("nothing is left: the library is not needed")
			}
			t.Logf("figure: %s: %d left; the wait hangs: %v", tt.issue, len(left), r.Hangs)
		})
		t.Run(tt.issue+"/with", func(t *testing.T) {
			i := i.In(t)
			m := stage.NewMarker(t, i.Dir)
			s := tt.with.start(t, i, stage.Lineage, environ(m), command)
			m.Ready()
			r := s.finish(true)
			m.MustBeGone()
			r.mustBeClean(t)
			if r.took > soon {
				t.Errorf("the wait took %v", r.took)
			}
		})
	}
}

// TestSubreaper: without a daemon each library uses lineage init, and reports this.
func TestSubreaper(t *testing.T) {
	i := stage.New(t)
	i.Listen() // something that is not a daemon
	for _, tt := range []escape{{"daemonise stay", 1}, {"under ignoreterm", 1}, {"ignoreterm", 1}} {
		for _, l := range libraries {
			t.Run(l.name+"/"+tt.program, func(t *testing.T) {
				i := i.In(t)
				m := stage.NewMarker(t, i.Dir)
				s := l.start(t, i, stage.Lineage, environ(m), tt.argv())
				m.Members(tt.members)
				require.Equal(t, s.session(), "")
				r := s.finish(true)
				m.MustBeGone()
				if r.Guarantee != "subreaper" || r.Verdict != api.VerdictClean {
					t.Errorf("guarantee %s, verdict %q: %s", r.Guarantee, r.Verdict, r.Why)
				}
				if r.took > soon {
					t.Errorf("the wait took %v", r.took)
				}
			})
		}
	}
}

// TestStartsDaemon: where no daemon runs, root's lineage run starts one.
func TestStartsDaemon(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			i := stage.New(t)
			m := stage.NewMarker(t, i.Dir)
			s := l.start(t, i, stage.Lineage, environ(m), escape{"daemonise stay", 1}.argv())
			m.Members(1)
			r := s.finish(true)
			m.MustBeGone()
			r.mustBeClean(t)
		})
	}
}

// TestContext: the end of the context ends everything, even if lineage run is killed:
// the wait still returns only when nothing is left.
func TestContext(t *testing.T) {
	i := stage.NewDaemon(t)
	start := func(t *testing.T) (*run.Cmd, *stage.Marker, context.CancelFunc) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		m := stage.NewMarker(t, i.Dir)
		cmd := run.CommandContext(ctx, stage.Program("daemonise"), "stay")
		cmd.Lineage, cmd.Socket, cmd.Env, cmd.Require = stage.Lineage, i.Socket, environ(m), run.Session
		require.NoError(t, cmd.Start())
		m.Members(1)
		return cmd, m, cancel
	}
	t.Run("done", func(t *testing.T) {
		cmd, m, cancel := start(t)
		cancel()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
		m.MustBeGone()
		if r := cmd.Report(); r == nil || r.Verdict != api.VerdictClean || r.EndReason != "end" {
			t.Errorf("report: %+v", r)
		}
	})
	t.Run("lineage run is killed", func(t *testing.T) {
		cmd, m, cancel := start(t)
		defer cancel()
		require.NoError(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Error("wait: no error")
		}
		m.MustBeGone()
		if r := cmd.Report(); r == nil || r.Verdict != api.VerdictClean || r.EndReason != "owner_exit" {
			t.Errorf("report: %+v", r)
		}
	})
	t.Run("not run", func(t *testing.T) {
		cmd := run.Command("true")
		cmd.Lineage, cmd.Socket, cmd.Name = stage.Lineage, i.Socket, "in valid"
		if err := cmd.Run(); err == nil || !strings.Contains(err.Error(), "did not run the command") {
			t.Errorf("run: %v", err)
		}
	})
}
