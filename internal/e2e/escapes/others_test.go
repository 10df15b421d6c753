//go:build linux

package escapes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A tool is another way to end everything that a command started.
type tool struct {
	name   string // for the table
	leaves string // for the table
	// wrap returns the words that come before the command to start it under the tool.
	wrap func(*match) []string
	// service: wrap starts a child of systemd, which waits for its session.
	service bool
	// end ends everything. The root may be dead.
	end func(*match)
}

type match struct {
	*trial
	tool *tool
	// first is the PID that was started: the tool if it starts the root itself, else the root.
	first int
	// cgroup is the cgroup that wrap made, and unit the name of its unit.
	cgroup, unit string
}

const cookie = "LNGTEST_COOKIE"

var tools = []*tool{
	{name: "process group: `kill -KILL -- -PGID`",
		leaves: "everything that called `setsid` or `setpgid`, as every daemon does",
		end:    func(x *match) { _ = unix.Kill(-x.first, unix.SIGKILL) }},
	{name: "walk over children: psutil's `kill_proc_tree`",
		leaves: "orphans: the kernel gives them another parent. With the command dead, everything",
		end:    (*match).killTree},
	{name: "environment cookie: kill what has `JOB_ID=…`, scan until none is found",
		leaves: "what clears its environment, or forks and exits faster than `/proc` is read",
		wrap:   func(x *match) []string { return []string{"env", x.cookie()} }, end: (*match).killByCookie},
	{name: "`tini -s -g`, on the host",
		leaves: "everything outside its process group, when the command exits",
		wrap:   func(*match) []string { return []string{"tini", "-s", "-g", "--"} }, end: (*match).stopTini},
	{name: "`cgroup.kill`",
		leaves: "processes that moved to another cgroup, or whose main thread has exited. Not available for threaded cgroups",
		wrap:   (*match).intoCgroup, end: (*match).killCgroup},
	{name: "`tini` as PID 1 of a container",
		leaves: "nothing, but everything must run in a container",
		wrap: func(*match) []string {
			return []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "tini", "-g", "--"}
		}, end: func(x *match) { _ = unix.Kill(x.first, unix.SIGKILL) }},
}

// programs are the rows to try: one for each way to leave that needs only the program.
var programs = []string{
	"plain", "bg_orphan", "setpgid", "setsid", "daemon", "daemon_noenv", "env_exec_clear", "env_scrub", "ignore_all", "hop_fast", "hop_slow",
	"bomb_active", "respawn_supervisor", "nested_subreaper", "clone_parent", "posix_spawn", "zombie_leader", "sigstopped", "cg_migrate", "threaded_cg",
}

// TestOthers runs programs of the table under other tools, and counts after how many
// something is left; and under lineage, where a leftover is a failure.
// LNGTEST_PAGE=FILE: where the table goes.
func TestOthers(t *testing.T) {
	text := compared(t, tools)
	if path := os.Getenv("LNGTEST_PAGE"); path != "" && !t.Failed() {
		require.NoError(t, page.Write(path, "others", text))
	}
}

// compared tries the programs under each of the tools, and under lineage, and returns the table.
func compared(t *testing.T, tools []*tool) string {
	t.Helper()
	i := stage.NewDaemon(t)
	var tried []*row
	for n := range rows {
		if slices.Contains(programs, rows[n].name) {
			tried = append(tried, &rows[n])
		}
	}
	table := page.NewTable("what people use", "left something behind:", "… after the command was killed:", "what gets away")
	line := func(name, leaves string, count func(failure) int) {
		table.Row(name, fmt.Sprintf("%d of %d", count(rootAlive), len(tried)), fmt.Sprintf("%d of %d", count(rootKilled), len(tried)), leaves)
	}
	for _, o := range tools {
		line(o.name, o.leaves, func(f failure) int {
			n := 0
			for _, r := range tried {
				if left := o.play(t, i, r, f); left {
					n++
				}
			}
			return n
		})
	}
	line("**`lineage run`**", "see [KNOWN_ISSUES.md](KNOWN_ISSUES.md)", func(f failure) int {
		h := newHost(t, cell{failure: f})
		for _, r := range tried {
			h.try(t, r)
		}
		return 0 // try has failed otherwise
	})
	head := fmt.Sprintf("%s, %s: one trial of each of %d programs.\n\n", time.Now().UTC().Format(time.DateOnly), machine(), len(tried))
	t.Logf("figure: %s", head+table.String())
	return head + table.String()
}

// play starts the program, lets the tool end it, and reports whether something is alive
// half a second later. It runs in a session, which ends what is left.
func (o *tool) play(t *testing.T, i *stage.Instance, r *row, f failure) (left bool) {
	t.Run(fmt.Sprintf("%s/%s/%d_%s", o.name, f, r.number, r.name), func(t *testing.T) {
		x := &match{trial: &trial{row: r, Instance: i.In(t), t: t, name: "net", m: stage.NewMarker(t, i.Dir)}, tool: o}
		if o.service {
			x.startService()
		} else {
			x.start()
		}
		defer x.finish()
		if f == rootKilled {
			x.kill(x.root, unix.SIGKILL)
			// A tool that started the root notices its death, and exits.
			x.Until("end of the command", func() bool { return x.dead(x.first) })
		}
		o.end(x)
		for deadline := time.Now().Add(time.Second / 2); x.m.Drain() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		left = x.m.Drain()
	})
	return left
}

// start starts the program under the tool, and waits until it is in place.
func (x *match) start() {
	x.t.Helper()
	// The shell is the root of the session, and stays alive.
	args := []string{"run", "--name", x.name, "--grace", "0s", "--subreaper=false", "--", "sh", "-c", `"$@" & echo $!; exec sleep 60`, "sh"}
	args = append(args, "setsid") // its own process group; it execs in place
	if x.tool.wrap != nil {
		args = append(args, x.tool.wrap(x)...)
	}
	argv := stage.Argv(x.expand(x.program))
	x.run = x.Start(append(args, argv...), x.m.Env())
	x.inPlace()
	tree := x.Tree(x.name)
	nodes := stage.NodesOf(tree)
	for _, n := range tree.Nodes {
		if n.Creator != nil && n.Creator.PID == tree.Session.Root.PID {
			x.first = n.PID
		}
	}
	// The root is the first below it that runs the program: tools start it in a child.
	for at := x.first; x.root == 0; {
		n, found := nodes[at]
		switch {
		case !found:
			x.t.Fatalf("no root below %d: %+v", x.first, tree)
		case n.Exe == argv[0]:
			x.root = at
		case len(n.Children) == 0:
			x.t.Fatalf("%d has started nothing: %+v", at, n)
		default:
			at = n.Children[0].PID
		}
	}
}

func (x *match) finish() {
	// A service's session may have ended already if nothing was left.
	if end := x.Lineage("end", "--yes", "--now", x.name); end.Code() != 0 && !x.tool.service {
		x.t.Fatal(end)
	}
	x.m.Gone()
}

func (x *match) dead(pid int) bool {
	state := stage.ProcStatus(pid, "State")
	return state == "" || strings.HasPrefix(state, "Z")
}

// killTree is the recipe of psutil's documentation.
func (x *match) killTree() {
	const script = `
import psutil, sys
try:
    parent = psutil.Process(int(sys.argv[1]))
    for p in parent.children(recursive=True) + [parent]:
        try:
            p.kill()
        except psutil.NoSuchProcess:
            pass
except psutil.NoSuchProcess:
    pass
`
	if out, err := exec.Command("/usr/bin/python3", "-c", script, strconv.Itoa(x.first)).CombinedOutput(); err != nil {
		x.t.Fatalf("psutil: %v: %s", err, out)
	}
}

func (x *match) cookie() string { return cookie + "=" + filepath.Base(x.m.Path) }

// killByCookie scans while it finds processes, for at most 3 s.
func (x *match) killByCookie() {
	want := []byte(x.cookie())
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		found := false
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			// The cookie is read after the pidfd was opened: so a reused PID is noticed.
			if environ, _ := os.ReadFile(dir + "/environ"); slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return bytes.Equal(v, want) }) {
				found = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil || found
			}
			unix.Close(fd)
		}
		if !found {
			return
		}
	}
}

// stopTini asks as "docker stop" does: SIGTERM, a second, SIGKILL.
func (x *match) stopTini() {
	_ = unix.Kill(x.first, unix.SIGTERM)
	for deadline := time.Now().Add(time.Second); !x.dead(x.first) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	_ = unix.Kill(x.first, unix.SIGKILL)
}

func (x *match) intoCgroup() []string {
	x.cgroup = newCgroup(x.trial)
	return []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, x.cgroup}
}

// killCgroup is what systemctl kill, container runtimes and scripts do.
func (x *match) killCgroup() {
	err := os.WriteFile(filepath.Join(x.cgroup, "cgroup.kill"), []byte("1"), 0)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		x.t.Fatal(err)
	}
}
