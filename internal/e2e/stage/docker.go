//go:build linux

package stage

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// Docker is the test's own dockerd, without a network. Its client is LNGTEST_DOCKER or the packaged one: since 28
// the client exits with 0 after SIGTERM.
type Docker struct{ engine }

// Need skips a test whose programs are not installed. The target of make installs them.
func Need(t *testing.T, target string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s; run make %s", p, target)
		}
	}
}

// Docker starts a dockerd. Its command line follows the words of within.
func (i *Instance) Docker(within ...string) *Docker {
	i.T.Helper()
	client := cmp.Or(os.Getenv("LNGTEST_DOCKER"), "/usr/bin/docker")
	Need(i.T, "test-brokers", "dockerd", client, "containerd", "runc", "iptables")
	require.NoError(i.T, errors.Join(PrivateRun(), hideDockerConfig(i.T)))
	socket := "unix://" + filepath.Join(i.Dir, "docker.sock")
	d := &Docker{engine{i, []string{client, "-H", socket}}}
	containers := NewCgroup(i.T)
	d.serve("info", d.stop, append(within, "dockerd", "--iptables=false", "--ip-forward=false", "--bridge=none",
		"--add-runtime", "crun=/usr/bin/crun", "-H", socket,
		"--data-root", filepath.Join(i.Dir, "docker"), "--exec-root", filepath.Join(i.Dir, "exec"),
		"--pidfile", filepath.Join(i.Dir, "docker.pid"), "--storage-driver", "vfs", "--cgroup-parent", "/"+filepath.Base(containers.Dir))...)
	return d
}

// hideDockerConfig gives dockerd an empty directory for the key that it makes.
func hideDockerConfig(t *testing.T) error {
	const dir = "/etc/docker"
	made := os.Mkdir(dir, 0o755) == nil
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		if made {
			os.Remove(dir)
		}
	})
	return hide(dir)
}

// stop ends the containers.
func (d *Docker) stop() {
	if out, err := d.Command("ps", "-aq").Output(); err == nil && len(out) > 0 {
		_ = d.Command(append([]string{"rm", "-f"}, strings.Fields(string(out))...)...).Run()
	}
}

// Must runs the client, which must succeed, and returns what it printed.
func (d *Docker) Must(args ...string) string {
	d.i.T.Helper()
	return d.engine.Must(d.Command(args...))
}

// Import makes an image of these files: their names in the image's root, and their paths
// here. Everyone may read them.
func (d *Docker) Import(name string, files map[string]string) {
	d.i.T.Helper()
	contents := map[string][]byte{}
	for to, from := range files {
		contents[to] = require.ReadFile(d.i.T, from)
	}
	load := d.Command("import", "-", name)
	load.Stdin = archive(d.i.T, contents)
	d.engine.Must(load)
}
