//go:build linux

package stage

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Mounted is where a file system of that type, with that option, is mounted; "" if nowhere.
func Mounted(kind, option string) string {
	text, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[2] == kind && strings.Contains(","+f[3]+",", ","+option) {
			return f[1]
		}
	}
	return ""
}

// A Cgroup holds a workload, for programs that do not keep a marker open: the kernel lists
// its processes and kills them all when the test ends.
type Cgroup struct {
	T   *testing.T
	Dir string
}

// NewCgroup makes a version 2 cgroup.
func NewCgroup(t *testing.T) *Cgroup {
	t.Helper()
	root := Mounted("cgroup2", "")
	if root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	dir, err := os.MkdirTemp(root, "lngtest-")
	require.NoError(t, err)
	g := &Cgroup{T: t, Dir: dir}
	g.guard()
	return g
}

// guard starts a shell that kills what is in the cgroup after the test, even if the test binary dies, and removes the
// cgroup, and those of version 1 that dockerd made with its name.
func (g *Cgroup) guard() {
	g.T.Helper()
	const script = `read -r line
echo 1 >"$0/cgroup.kill"
name=${0##*/}
for n in $(seq 300); do
	find /sys/fs/cgroup -depth -type d \( -name "$name" -o -path "*/$name/*" \) -exec rmdir {} + 2>/dev/null && exit
	sleep 0.1
done
exit 1`
	cmd := exec.Command("sh", "-c", script, g.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	held, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	require.NoError(g.T, err)
	g.T.Cleanup(func() {
		held.Close()
		if err := cmd.Wait(); err != nil {
			g.T.Errorf("cgroup %s is not empty: %v", g.Dir, err)
		}
	})
}

// Wrap is the command, run inside.
func (g *Cgroup) Wrap(command ...string) []string {
	return append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.Dir}, command...)
}

// Processes are the live ones, by PID, with their command lines. Processes of the program path are left out.
func (g *Cgroup) Processes(path string) map[int]string {
	g.T.Helper()
	text, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.procs"))
	require.NoError(g.T, err)
	all := map[int]string{}
	for _, field := range strings.Fields(string(text)) {
		dir := filepath.Join("/proc", field)
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		if path != "" && exe == path {
			continue
		}
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(args) == 0 {
			continue // it has released its memory, and everything that it held
		}
		pid, _ := strconv.Atoi(field)
		all[pid] = strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
	}
	return all
}

// Kill kills every process in it and waits until the kernel counts none.
func (g *Cgroup) Kill() {
	g.T.Helper()
	require.NoError(g.T, os.WriteFile(filepath.Join(g.Dir, "cgroup.kill"), []byte("1"), 0))
	require.Eventually(g.T, "empty cgroup", func() bool {
		text, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.events"))
		return err == nil && strings.Contains(string(text), "populated 0")
	})
}

// Groups is how many cgroups of sessions there are.
func Groups() (n int) {
	_ = filepath.WalkDir(Mounted("cgroup2", ""), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), "lineage_") {
			n++
		}
		return nil // one that is gone is not there
	})
	return n
}
