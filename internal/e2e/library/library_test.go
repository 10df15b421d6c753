//go:build linux

package library

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/run"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// soon is how long a wait may take: on a busy machine more than the grace, and much less
// than the programs live.
const soon = 15 * time.Second

func environ(m *stage.Marker) []string { return slices.Concat(os.Environ(), m.Env()) }

// TestLibraries: nothing that a program leaves is alive when the library has waited: in a session, with lineage init
// where no daemon answers, and with the daemon that root's lineage run starts. A process that holds the command's
// output does not make the wait hang.
func TestLibraries(t *testing.T) {
	served, silent := stage.NewDaemon(t), stage.New(t)
	silent.Listen() // something that is not a daemon
	other := stage.NewBystander(served, "library", 0)
	for _, tt := range []struct {
		name, program string
		members       int             // that say that they are in place
		in            *stage.Instance // nil: where no daemon runs
		end           bool
		guarantee     string
	}{
		{"hoppers", "hop 8 20 200", 0, served, true, "session"},
		{"deaf", "under ignoreterm", 1, served, true, "session"},
		{"pipe", "holdpipe", 0, served, false, "session"},
		{"without", "daemonise stay", 1, silent, true, "subreaper"},
		{"deaf without", "under ignoreterm", 1, silent, true, "subreaper"},
		{"started", "daemonise stay", 1, nil, true, "session"},
	} {
		for _, l := range libraries {
			t.Run(tt.name+"/"+l.name, func(t *testing.T) {
				i := tt.in
				if i == nil {
					i = stage.New(t)
				}
				i = i.In(t)
				m := stage.NewMarker(t, i.Dir)
				s := l.start(t, i, environ(m), stage.Argv(tt.program))
				m.Ready()
				if tt.members > 0 {
					m.Members(tt.members)
				}
				switch {
				case tt.guarantee == "subreaper":
					require.Equal(t, s.session(), "")
				case tt.in == served && tt.end:
					require.Equal(t, s.session(), i.Session("library").ID)
				}
				r := s.finish(tt.end)
				m.MustBeGone()
				if r.Guarantee != tt.guarantee || r.Verdict != api.VerdictClean || !tt.end && r.Code != 0 || r.took > soon {
					t.Errorf("%+v", r)
				}
			})
		}
	}
	other.MustBeUntouched()
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
