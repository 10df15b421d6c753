//go:build linux

package image

import (
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
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

// TestInit: the image's lineage init as PID 1 of a container without privileges ends what the command leaves.
func TestInit(t *testing.T) {
	s := newShop(t)
	app := s.application("ignoreterm")
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
