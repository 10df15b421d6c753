//go:build linux

package stage

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// Containerd is the test's own containerd, without docker. Client is the command line of ctr, Image what a pod begins
// with, and Group the cgroup that containers are to be put below.
type Containerd struct {
	i                    *Instance
	Socket, Image, Group string
	Client               []string
}

const containerdConfig = `version = 2
root = "%[1]s/containerd"
state = "%[1]s/state"
[grpc]
address = "%[2]s"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "%[3]s"
restrict_oom_score_adj = true
disable_tcp_service = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "%[1]s"
conf_dir = "%[1]s"
`

// NewContainerd starts a containerd with all its files in the test's directory. It ends with its containers when the test ends,
// even if the test binary dies.
func NewContainerd(i *Instance) *Containerd {
	i.T.Helper()
	Need(i.T, "test-brokers", "containerd", "ctr", "runc", "/bin/busybox")
	require.NoError(i.T, PrivateRun())
	socket, config := filepath.Join(i.Dir, "containerd.sock"), filepath.Join(i.Dir, "containerd.toml")
	c := &Containerd{i, socket, "docker.io/library/lngtest:latest", "", []string{"ctr", "-a", socket}}
	require.NoError(i.T, os.WriteFile(config, fmt.Appendf(nil, containerdConfig, i.Dir, socket, c.Image), 0o600))
	engine, containers := NewCgroup(i.T), NewCgroup(i.T)
	c.Group = "/" + filepath.Base(containers.Dir)
	command := engine.Wrap("containerd", "-c", config)
	p := Start(i.T, exec.Command(command[0], command[1:]...))
	i.T.Cleanup(func() { c.stop(p) })
	i.Until("containerd that answers", func() bool {
		if p.Exited() {
			i.T.Fatal(p)
		}
		return c.Command("version").Run() == nil
	})
	return c
}

// stop ends the containers, then containerd, and unmounts what they leave.
func (c *Containerd) stop(p *Process) {
	for _, namespace := range []string{"default", "k8s.io"} {
		out, _ := c.Command("-n", namespace, "tasks", "list", "-q").Output() // it may have none
		for _, id := range strings.Fields(string(out)) {
			_ = c.Command("-n", namespace, "tasks", "delete", "-f", id).Run() // its cgroup is killed later
		}
	}
	_ = p.Process.Signal(os.Interrupt) // it may have exited already
	p.Wait()
	text, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], c.i.Dir+"/") {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}

// Command is ctr with args.
func (c *Containerd) Command(args ...string) *exec.Cmd {
	return exec.Command(c.Client[0], append(c.Client[1:len(c.Client):len(c.Client)], args...)...)
}

// Must runs a command, which must succeed, and returns what it printed.
func (c *Containerd) Must(cmd *exec.Cmd) string {
	c.i.T.Helper()
	p := Start(c.i.T, cmd).Wait()
	if p.Code() != 0 {
		c.i.T.Fatal(p)
	}
	return strings.TrimSpace(p.Out.String())
}

// Import makes the image of pods, as docker save writes one: busybox, by these names.
func (c *Containerd) Import(names ...string) {
	c.i.T.Helper()
	busybox := require.ReadFile(c.i.T, "/bin/busybox")
	var layer, image bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, name := range names {
		require.NoError(c.i.T, w.WriteHeader(&tar.Header{Name: "bin/" + name, Mode: 0o755, Size: int64(len(busybox))}))
		_, _ = w.Write(busybox) // into memory
	}
	require.NoError(c.i.T, w.Close())
	config, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"Entrypoint": []string{"/bin/sleep", "300"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	require.NoError(c.i.T, err)
	manifest := `[{"Config":"config.json","RepoTags":["` + c.Image + `"],"Layers":["layer.tar"]}]`
	w = tar.NewWriter(&image)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"layer.tar", layer.Bytes()}, {"config.json", config}, {"manifest.json", []byte(manifest)}} {
		require.NoError(c.i.T, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content))}))
		_, _ = w.Write(f.content)
	}
	require.NoError(c.i.T, w.Close())
	load := c.Command("-n", "k8s.io", "images", "import", "--snapshotter", "native", "-")
	load.Stdin = &image
	c.Must(load)
}
