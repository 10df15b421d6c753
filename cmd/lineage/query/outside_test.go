//go:build linux

package query

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Our own ancestors are those that the kernel names.
func TestAncestors(t *testing.T) {
	all := ThisHost.Ancestors(os.Getpid())
	if len(all) == 0 || all[0].PID != os.Getppid() || all[0].Started == nil {
		t.Errorf("%+v", all)
	}
	if got := ThisHost.Ancestors(1 << 30); got != nil {
		t.Errorf("of nobody: %+v", got)
	}
}

// fixture is a procfs of files.
type fixture struct {
	t    *testing.T
	root string
}

// add makes a process: ppid, cgroup, and the links of its directory and its terminal.
func (f fixture) add(pid, ppid int, cgroup, cwd, stdin string) {
	f.t.Helper()
	dir := filepath.Join(f.root, fmt.Sprint(pid))
	for name, text := range map[string]string{
		"stat": fmt.Sprintf("%d (a) b) S %d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0 0 1 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
			pid, ppid, pid, pid),
		"cmdline": "a\x00-x\x00", "cgroup": "0::" + cgroup + "\n", "statm": "100 10 0 0 0 0 0\n",
		"status": "Name:\ta\nUid:\t5\t6\t5\t5\n",
	} {
		require.NoError(f.t, os.MkdirAll(filepath.Join(dir, "fd"), 0o755))
		require.NoError(f.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for name, to := range map[string]string{"cwd": cwd, "fd/0": stdin} {
		require.NoError(f.t, os.Symlink(to, filepath.Join(dir, name)))
	}
}

// The list has the children of PID 1 outside services that hold something.
func TestOrphans(t *testing.T) {
	f := fixture{t, t.TempDir()}
	run := t.TempDir()
	const user = "/user.slice/user-5.slice/session-1.scope"
	f.add(1, 0, "/init.scope", "/", "/dev/null")
	f.add(10, 1, user, "/srv/x (deleted)", "/dev/null")
	f.add(11, 1, user, "/", "/dev/pts/3 (deleted)")
	f.add(12, 1, user, "/", "/dev/pts/3")                                 // holds nothing
	f.add(13, 1, "/system.slice/db.service", "/x (deleted)", "/dev/null") // a service
	f.add(14, 10, user, "/x (deleted)", "/dev/null")                      // not a child of PID 1
	f.add(15, 1, "/", "/x (deleted)", "/dev/null")                        // a service of another init
	f.add(16, 1, user, "/", "/home/me/notes (deleted)")                   // no terminal
	require.NoError(t, os.WriteFile(filepath.Join(run, "db.pid"), []byte("15\n"), 0o644))
	orphans, _, err := Outsiders{Proc: procfs.FS(f.root), Run: run}.Orphans(t.Context())
	if err != nil || len(orphans) != 2 {
		t.Fatalf("%v, %+v", err, orphans)
	}
	if o := orphans[0]; o.PID != 10 || o.DeletedDir != "/srv/x" || o.Terminal != "" || *o.UID != 6 || o.RSSBytes != 10*uint64(os.Getpagesize()) || o.Comm != "a) b" {
		t.Errorf("%+v", o)
	}
	if o := orphans[1]; o.PID != 11 || o.DeletedDir != "" || o.Terminal != "/dev/pts/3" || !slices.Equal(o.Argv, []string{"a", "-x"}) {
		t.Errorf("%+v", o)
	}
}

// In a container, PID 1 is not the host's PID 1.
func TestOrphansOfAnotherHost(t *testing.T) {
	f := fixture{t, t.TempDir()}
	f.add(10, 1, "/", "/srv/x (deleted)", "/dev/null")
	f.add(os.Getpid(), 1, "/", "/", "/dev/null")
	ns := filepath.Join(f.root, fmt.Sprint(os.Getpid()), "ns")
	for pid, want := range map[string]error{procfs.InitPIDNamespace: nil, "pid:[1]": tracer.ErrPIDNamespace} {
		require.NoError(t, errors.Join(os.RemoveAll(ns), os.Mkdir(ns, 0o755), os.Symlink(pid, filepath.Join(ns, "pid"))))
		orphans, _, err := Outsiders{Proc: procfs.FS(f.root), Run: f.root}.Orphans(t.Context())
		if !errors.Is(err, want) || (len(orphans) == 1) != (want == nil) {
			t.Errorf("%s: %v, %+v", pid, err, orphans)
		}
	}
}

// asListener makes the test binary a server.
const asListener = "LNGTEST_LISTEN"

func init() {
	if os.Getenv(asListener) != "" {
		listen()
		os.Exit(0)
	}
}

// listen serves a port until stdin ends.
func listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(os.Getpid(), l.Addr().(*net.TCPAddr).Port)
	os.Stdin.Read(make([]byte, 1))
}

// What an orphan's tree holds is the orphan's, except for terminals in use and what a
// manager has put into cgroups.
func TestTree(t *testing.T) {
	f := fixture{t, t.TempDir()}
	const scope, service = "/user.slice/session-1.scope", "/user.slice/user@5.service/app.slice/x.service"
	f.add(10, 1, scope, "/", "/dev/null")
	f.add(11, 10, scope, "/", "/dev/null")
	f.add(12, 11, scope, "/", "/dev/null")
	f.add(13, 10, service, "/", "/dev/null")
	f.add(14, 13, service, "/", "/dev/null")
	f.add(15, 10, scope, "/", "/dev/null")
	f.add(16, 15, scope, "/", "/dev/null")
	f.add(17, 1, scope, "/", "/dev/null")
	h := Outsiders{Proc: procfs.FS(f.root)}
	children, err := h.Proc.ByParent()
	require.NoError(t, err)
	at := slices.IndexFunc(children[10], func(s procfs.Stat) bool { return s.PID == 15 })
	children[10][at].TTY = 34816 // a pane of tmux
	pids := func(terminal int64) (pids []uint32) {
		orphan := children[1][0]
		orphan.TTY = terminal
		for _, id := range h.tree(&orphan, scope, children) {
			pids = append(pids, id.PID)
		}
		return pids
	}
	if got := pids(0); !slices.Equal(got, []uint32{10, 11, 12}) {
		t.Errorf("%v", got)
	}
	if got := pids(34816); !slices.Equal(got, []uint32{10, 11, 15, 12, 16}) {
		t.Errorf("in the same terminal: %v", got)
	}
}

// A process that was really orphaned is found with its directory and its port, which a
// child of it may hold. The shell exits, and its child is reparented to PID 1, or to
// a subreaper.
func TestRealOrphan(t *testing.T) {
	for name, script := range map[string]string{
		"itself":  `"$0" listener <&3 & echo $!`,
		"a child": `sh -c '"$0" listener <&3; :' "$0" & echo $!`,
	} {
		t.Run(name, func(t *testing.T) { realOrphan(t, script) })
	}
}

func realOrphan(t *testing.T, script string) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o755))
	cmd := exec.Command("sh", "-c", script, self)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asListener+"=1")
	in, end, err := os.Pipe()
	require.NoError(t, err)
	defer end.Close() // it exits then
	cmd.ExtraFiles = []*os.File{in}
	out, w, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = w
	require.NoError(t, cmd.Run())
	in.Close()
	w.Close()
	var pid, holder, port int
	_, err = fmt.Fscan(out, &pid, &holder, &port)
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir))
	if s, err := ThisHost.Proc.Stat(uint32(pid)); err != nil || s.Parent != 1 {
		t.Skipf("it became a child of %d: %v", s.Parent, err)
	}
	orphans, unknown, err := ThisHost.Orphans(t.Context())
	at := slices.IndexFunc(orphans, func(o text.HostOrphan) bool { return o.PID == pid })
	if at < 0 {
		t.Fatalf("%d is not among %+v: %v, %v", pid, orphans, unknown, err)
	}
	o := orphans[at]
	if o.DeletedDir != dir || !slices.ContainsFunc(o.Ports, func(p api.Port) bool { return p.Port == port && p.PID == holder }) ||
		!strings.Contains(strings.Join(o.Argv, " "), "listener") {
		t.Errorf("%+v", o)
	}
}
