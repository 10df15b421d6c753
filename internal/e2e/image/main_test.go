//go:build linux

package image

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestMain(m *testing.M) {
	stage.Begin("test-image", "../../..")
	os.Exit(m.Run())
}

// A shop is an instance with a dockerd that has the image. Containers see its socket as
// /run/lineage/lineage.sock.
type shop struct {
	*stage.Instance
	docker *stage.Docker
	tag    string // of the image
}

func newShop(t *testing.T) *shop {
	t.Helper()
	i := stage.New(t)
	s := &shop{Instance: i, docker: i.Docker()}
	s.Socket = filepath.Join(i.Dir, "run", "lineage.sock")
	require.NoError(t, os.Mkdir(filepath.Dir(s.Socket), 0o755))
	_, s.tag, _ = strings.Cut(s.docker.Must("load", "-qi", os.Getenv("LNGTEST_IMAGE")), "Loaded image: ")
	t.Logf("figure: docker %s, image %s", s.docker.Must("version", "-f", "{{.Server.Version}}"), s.tag)
	return s
}

// in is the same shop, for another test.
func (s *shop) in(t *testing.T) *shop { return &shop{s.Instance.In(t), s.docker, s.tag} }

// recipe is a block of docs/CONTAINERS.md, for this image and with this instance's
// directories in place of the host's.
func (s *shop) recipe(name string) string {
	s.T.Helper()
	all, _ := stage.Recipes(s.T, "docs/CONTAINERS.md")
	if all[name] == "" {
		s.T.Fatalf("there is no recipe %s", name)
	}
	return strings.NewReplacer("lineage:0.1.0", s.tag, " -v /run/lineage:", " -v "+filepath.Dir(s.Socket)+":",
		" -v /var/", " -v "+s.Dir+"/var/").Replace(strings.TrimSpace(all[name]))
}

// replaced is a text in which what, which must occur once, is replaced.
func (s *shop) replaced(text, what, with string) string {
	s.T.Helper()
	if strings.Count(text, what) != 1 {
		s.T.Fatalf("%q is not there once in %s", what, text)
	}
	return strings.Replace(text, what, with, 1)
}

// sh starts a shell command whose docker is the test's.
func (s *shop) sh(command string) *stage.Process {
	s.T.Helper()
	return stage.Start(s.T, exec.Command("sh", "-c", fmt.Sprintf("docker() { %s \"$@\"; }\n%s", strings.Join(s.docker.Client, " "), command)))
}

// client runs the documented client as a user, with more docker flags and a command
// other than ls.
func (s *shop) client(uid int, flags, command string) *stage.Process {
	s.T.Helper()
	text := s.replaced(s.recipe("image-client"), `"$(id -u)"`, fmt.Sprint(uid)+" "+flags)
	return s.sh(strings.TrimSuffix(text, " ls") + " " + command).Wait()
}

// refused fails unless a command exited with that code and printed that text in one line.
func refused(t *testing.T, p *stage.Process, code int, text string) {
	t.Helper()
	if said := p.Err.String(); p.Code() != code || !strings.Contains(said, text) || strings.Count(said, "\n") != 1 {
		t.Errorf("want exit code %d and one line with %q: %v", code, text, p)
	}
}
