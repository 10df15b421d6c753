//go:build linux

package brokers

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// dockerd starts one with everything that it has in the test's directory, and
// an image with a static busybox, and gives the client's command.
func dockerd(t *testing.T, i *stage.Instance) (docker string) {
	t.Helper()
	need(t, "dockerd", "docker", "containerd", "runc", "iptables")
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("no busybox; run make test-brokers")
	}
	socket := "unix://" + filepath.Join(i.Dir, "docker.sock")
	d := exec.Command("dockerd", "--iptables=false", "--bridge=none", "-H", socket, "--data-root", filepath.Join(i.Dir, "docker"),
		"--exec-root", filepath.Join(i.Dir, "exec"), "--pidfile", filepath.Join(i.Dir, "docker.pid"), "--storage-driver", "vfs",
		"--cgroup-parent", "/"+filepath.Base(i.Dir))
	p := stage.Start(t, d)
	client := func(args ...string) *exec.Cmd {
		return exec.Command("docker", append([]string{"-H", socket}, args...)...)
	}
	t.Cleanup(func() {
		if out, err := client("ps", "-aq").Output(); err == nil && len(out) > 0 {
			client(append([]string{"rm", "-f"}, string(bytes.TrimSpace(out)))...).Run()
		}
		d.Process.Signal(os.Interrupt)
		p.Wait()
		exec.Command("umount", "-R", filepath.Join(i.Dir, "docker")).Run()
		exec.Command("umount", "-R", filepath.Join(i.Dir, "exec")).Run()
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			cgroups, _ := filepath.Glob(pattern + filepath.Base(i.Dir))
			for _, dir := range cgroups {
				if err := os.Remove(dir); err != nil {
					t.Error(err)
				}
			}
		}
	})
	i.Until("dockerd that answers", func() bool {
		if p.Exited() {
			t.Fatal(p)
		}
		return client("info").Run() == nil
	})
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	w.WriteHeader(&tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755})
	w.WriteHeader(&tar.Header{Name: "bin/sleep", Mode: 0o755, Size: int64(len(busybox))})
	w.Write(busybox)
	w.Close()
	load := client("import", "-", "lngtest")
	load.Stdin = &image
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("import: %v: %s", err, out)
	}
	return "docker -H " + socket
}

func TestDocker(t *testing.T) {
	i := policed(t, "end: strong")
	docker := dockerd(t, i)
	run := docker + " run -d --network none "

	a := ask(i, run+"--name lngtest-mine lngtest /bin/sleep 131")
	b := a.brokered("attributed")
	is(t, b, "docker", "container", "strong", true)
	i.End("work")
	i.Until("end of the container", func() bool { return !alive(b) })
	a.run.Wait()

	a = ask(i, run+`-e LINEAGE_TOKEN="$LINEAGE_TOKEN" lngtest /bin/sleep 132`)
	b = a.brokered("attributed")
	is(t, b, "docker", "env", "strong", true)
	i.End("work")
	i.Until("end of the container", func() bool { return !alive(b) })
	a.run.Wait()

	a = ask(i, run+"lngtest /bin/sleep 133")
	b = a.brokered("attributed")
	is(t, b, "docker", "socket", "weak", false)
	i.End("work")
	if !alive(b) {
		t.Error("weak evidence ended it")
	}
	i.End(b.Session)
	a.run.Wait()

	// Two at once: each is of its own ask.
	a = ask(i, run+"--name lngtest-first lngtest /bin/sleep 134\n"+run+"lngtest /bin/sleep 135")
	var second api.Brokered
	i.Until("word of both containers", func() bool {
		b, second = api.Brokered{}, api.Brokered{}
		for _, s := range stage.Query[api.Sessions](i, "ls").Items {
			for _, x := range s.Brokered {
				switch {
				case s.Name != "work" || x.Process == nil:
				case x.Container == "lngtest-first":
					b = x
				default:
					second = x
				}
			}
		}
		return b.Process != nil && second.Process != nil
	})
	is(t, b, "docker", "container", "strong", true)
	is(t, second, "docker", "socket", "weak", false)
	if asked := strings.Join(second.Asked.Argv, " "); strings.Contains(asked, "--name") || second.Container == "" {
		t.Errorf("container %q was asked for by %s", second.Container, asked)
	}
	i.End("work")
	i.End(second.Session)
	r := a.receipt()
	if k := slices.IndexFunc(r.Processes, func(o api.Outcome) bool { return o.PID == b.Process.PID }); k < 0 || r.Processes[k].Container != "lngtest-first" {
		t.Errorf("%+v", r.Processes)
	}
}
