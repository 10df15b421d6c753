//go:build linux

package stage

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Containerd is the test's own containerd. Image is what a pod begins with, Group the cgroup of containers.
type Containerd struct {
	engine
	Socket, Image, Group string
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

// NewContainerd starts a containerd.
func NewContainerd(i *Instance) *Containerd {
	i.T.Helper()
	Need(i.T, "test-brokers", "containerd", "ctr", "runc", "/bin/busybox")
	require.NoError(i.T, PrivateRun())
	socket, config := filepath.Join(i.Dir, "containerd.sock"), filepath.Join(i.Dir, "containerd.toml")
	c := &Containerd{engine{i, []string{"ctr", "-a", socket}}, socket,
		"docker.io/library/lngtest:latest", "/" + filepath.Base(NewCgroup(i.T).Dir)}
	require.NoError(i.T, os.WriteFile(config, fmt.Appendf(nil, containerdConfig,
		i.Dir, socket, c.Image), 0o600))
	c.serve("version", c.stop, "containerd", "-c", config)
	return c
}

// stop ends the containers.
func (c *Containerd) stop() {
	for _, namespace := range []string{"default", "k8s.io"} {
		out, _ := c.Command("-n", namespace, "tasks", "list", "-q").Output() // it may have none
		for _, id := range strings.Fields(string(out)) {
			_ = c.Command("-n", namespace, "tasks", "delete", "-f", id).Run() // its cgroup is killed later
		}
	}
}

// Import makes the image of pods, as docker save writes one: busybox, by these names.
func (c *Containerd) Import(names ...string) {
	c.i.T.Helper()
	busybox := require.ReadFile(c.i.T, "/bin/busybox")
	programs := map[string][]byte{}
	for _, name := range names {
		programs["bin/"+name] = busybox
	}
	layer := archive(c.i.T, programs).Bytes()
	config, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": []string{"/bin/sleep", "300"}},
		"rootfs": map[string]any{"type": "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	require.NoError(c.i.T, err)
	manifest := `[{"Config":"config.json","RepoTags":["` + c.Image + `"],"Layers":["layer.tar"]}]`
	load := c.Command("-n", "k8s.io", "images", "import", "--snapshotter", "native", "-")
	load.Stdin = archive(c.i.T, map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": []byte(manifest)})
	c.Must(load)
}
