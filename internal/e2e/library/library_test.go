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

// soon is how long a wait may take: on a busy machine more than the grace, and much less
// than the programs live.
const soon = 15 * time.Second

func environ(m *stage.Marker) []string { return slices.Concat(os.Environ(), m.Env()) }

// TestEscapes: nothing of an escape program is alive when the library has waited.
// LNGTEST_PAGE=FILE: where the table goes.
func TestEscapes(t *testing.T) {
	tried := stage.Escapes()
	i := stage.NewDaemon(t)
	other := stage.NewBystander(i, "library", 0)
	table := page.NewTable("library", "programs:", "left something behind:", "longest wait:")
	for _, l := range libraries {
		var slowest time.Duration
		done, left := 0, 0
		for _, e := range tried {
			t.Run(l.name+"/"+e.Program, func(t *testing.T) {
				i := i.In(t)
				m := stage.NewMarker(t, i.Dir)
				s := l.start(t, i, stage.Lineage, environ(m), e.Argv())
				m.Ready()
				if e.Members > 0 {
					m.Members(e.Members)
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
	for _, tt := range []stage.Escape{{Program: "daemonise stay", Members: 1}, {Program: "under ignoreterm", Members: 1}, {Program: "ignoreterm", Members: 1}} {
		for _, l := range libraries {
			t.Run(l.name+"/"+tt.Program, func(t *testing.T) {
				i := i.In(t)
				m := stage.NewMarker(t, i.Dir)
				s := l.start(t, i, stage.Lineage, environ(m), tt.Argv())
				m.Members(tt.Members)
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
			s := l.start(t, i, stage.Lineage, environ(m), stage.Escape{Program: "daemonise stay", Members: 1}.Argv())
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
