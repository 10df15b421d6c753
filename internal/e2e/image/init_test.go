//go:build linux

package image

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// unprivileged is a container without any privilege that docker can remove.
var unprivileged = []string{
	"--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "-u", "65534:65534",
}

// application builds an image of test programs with the documented entry point, and
// returns its name.
func (s *shop) application(programs ...string) string {
	s.T.Helper()
	files := map[string]string{"sh": "/bin/busybox", "sleep": "/bin/busybox"}
	for _, p := range programs {
		files[p] = stage.Program(p)
	}
	s.docker.Import("lngtest", files)
	build := s.docker.Command("build", "-q", "-t", "lngtest-app", "-")
	build.Stdin = strings.NewReader("FROM lngtest\n" + s.recipe("image-init") + "\n")
	if out, err := build.CombinedOutput(); err != nil {
		s.T.Fatalf("build: %v: %s", err, out)
	}
	return "lngtest-app"
}

// run is docker run without privileges, for a program that holds the marker.
func (s *shop) run(m *stage.Marker, flags []string, image string, args ...string) *stage.Process {
	s.T.Helper()
	all := slices.Concat([]string{"run", "-v", s.Dir + ":" + s.Dir}, unprivileged, flags)
	for _, e := range m.Env() {
		all = append(all, "-e", e)
	}
	return stage.Start(s.T, s.docker.Command(slices.Concat(all, []string{image}, args)...))
}

// inspect is a number that docker reports about a container.
func (s *shop) inspect(name, field string) int {
	s.T.Helper()
	return stage.Number(s.T, s.docker.Must("inspect", "-f", "{{.State."+field+"}}", name))
}

// TestInit: the image's lineage init as PID 1 of a container without privileges.
func TestInit(t *testing.T) {
	s := newShop(t)
	app := s.application("codes", "daemonise", "ignoreterm", "stopped", "detach", "zombieleader")
	out := filepath.Join(s.Dir, "out") // where the container's user may write its receipt
	require.NoError(t, os.Mkdir(out, 0o755))
	require.NoError(t, os.Chown(out, stage.Nobody, stage.Nobody))

	// The application has children, and waits for them when docker stops it. PID 1
	// reaps the orphans.
	const children, orphans = 100, 500
	for _, c := range []struct {
		name, entry string
		zombies     int // of PID 1
	}{{"alone", "/codes", children + orphans}, {"init", "", 1}} {
		t.Run("reaps/"+c.name, func(t *testing.T) {
			s, m := s.in(t), stage.NewMarker(t, s.Dir)
			flags, args := []string{"--name", c.name}, []string{fmt.Sprint(children), fmt.Sprint(orphans)}
			if c.entry != "" {
				flags = append(flags, "--entrypoint", c.entry)
			} else {
				args = slices.Concat([]string{"/codes"}, args)
			}
			p := s.run(m, flags, app, args...)
			m.Ready()
			one := s.inspect(c.name, "Pid")
			s.Until(fmt.Sprintf("PID 1 with %d children", c.zombies), func() bool { return len(stage.Children(one)) == c.zombies })
			if c.entry == "" {
				if n := len(stage.Children(stage.Children(one)[0])); n != children {
					t.Errorf("the application has %d children, want its own %d", n, children)
				}
			}
			s.docker.Must("stop", c.name)
			if p.Wait(); p.Code() != 0 || s.inspect(c.name, "ExitCode") != 0 {
				t.Error(p)
			}
			m.MustBeGone()
		})
	}

	t.Run("ends", func(t *testing.T) {
		for _, name := range []string{"daemonise", "ignoreterm", "stopped", "detach", "zombieleader"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, m := s.in(t), stage.NewMarker(t, s.Dir)
				file := filepath.Join(out, name)
				// The image's entry point has no flags: this is the same with flags.
				p := s.run(m, []string{"--rm", "--entrypoint", "/lineage", "--name", name}, app,
					"init", "--grace", "200ms", "--report", file, "--", "/sh", "-c", `trap "exit 3" HUP; "$@" & /sleep 60 & wait`, "sh", "/"+name)
				m.Ready()
				s.docker.Must("kill", "-s", "HUP", name) // init passes it on
				if p.Wait(); p.Code() != 3 {
					t.Error(p)
				}
				m.MustBeGone()
				if r := stage.Report(t, file); r.Verdict != "clean" || !r.ConfirmedEmpty || len(r.Processes) == 0 {
					t.Errorf("receipt %+v", r)
				}
			})
		}
	})

	t.Run("stop", func(t *testing.T) {
		s, m := s.in(t), stage.NewMarker(t, s.Dir)
		p := s.run(m, []string{"--name", "deaf"}, app, "/sh", "-c", `trap "exit 4" TERM; /ignoreterm & wait`)
		m.Ready()
		stop := stage.Start(t, s.docker.Command("stop", "deaf")).Wait()
		if p.Wait(); p.Code() != 4 || !strings.Contains(p.Err.String(), " ignoreterm  SIGKILL") {
			t.Error(p)
		}
		m.MustBeGone()
		t.Logf("figure: docker stop took %.1f s with the default grace", stop.Took.Seconds())
	})

	t.Run("missing", func(t *testing.T) {
		s := s.in(t)
		p := stage.Start(t, s.docker.Command(slices.Concat([]string{"run", "--rm"}, unprivileged, []string{app, "/none"})...)).Wait()
		refused(t, p, 127, "/none")
	})
}
