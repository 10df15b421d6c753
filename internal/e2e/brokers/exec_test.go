//go:build linux

package brokers

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// What a command can leave in a container, each out of reach of what docker does at its end.
var leftovers = []struct{ name, script string }{
	{"setsid", "setsid sleep 120 &"},
	{"double fork", "(sleep 120 &)"},
	{"cleared environment", "env -i sleep 120 &"},
	{"ignores TERM", "(trap '' TERM; sleep 60; sleep 60) &"},
}

const execRules = `mode: enforce
breaker: {ends_per_minute: 10000}
containers:
  - {name: lngtest-execs, match: {container: 'lngtest-b*', image: lngtest}, grace: 100ms, client: end}
  - {name: lngtest-whole, match: {container: 'lngtest-whole*'}, session: container, grace: 100ms}
`

// house is a daemon with rules for containers, and a dockerd.
type house struct {
	*stage.Instance
	*stage.Docker
	daemon       *stage.Process
	others, left *stage.Marker // held by what runs in a container, and by what a command left
	up           int           // commands that were
	before       string        // the processes of the container lngtest-box
	runtime      string
}

// runtimes are what dockerd starts containers with.
var runtimes = []string{"runc", "crun"}

// newHouse starts a container that has two processes of its own.
func newHouse(t *testing.T, runtime string) *house {
	t.Helper()
	i := stage.New(t)
	stage.Need(t, "test-brokers", runtime)
	h := &house{Instance: i, runtime: runtime, others: stage.NewMarker(t, i.Dir), left: stage.NewMarker(t, i.Dir)}
	h.daemon = h.Daemon("--policy", h.Policy(execRules))
	var within []string
	if runtime == "crun" { // it refuses to run where both versions of cgroups are in use: dockerd sees version 1 only
		within = []string{"unshare", "-m", "sh", "-c", `umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"`, "-"}
	}
	h.Docker = h.Instance.Docker(within...)
	files := map[string]string{}
	for _, name := range []string{"sh", "sleep", "setsid", "env", "true"} {
		files["bin/"+name] = "/bin/busybox"
	}
	h.Import("lngtest", files)
	h.start("lngtest-box")
	h.others.Wait("process in the container", func(alive bool) bool { return alive })
	h.before = h.Docker.Must("top", "lngtest-box", "-o", "pid,args")
	return h
}

func (h *house) start(name string, flags ...string) {
	h.Instance.T.Helper()
	args := slices.Concat([]string{"run", "-d", "--network", "none", "--runtime", h.runtime, "--name", name, "-v", h.Dir + ":" + h.Dir}, flags,
		[]string{"lngtest", "/bin/sh", "-c", "exec 9>" + h.others.Path + "; sleep 3600 & sleep 3601"})
	h.Docker.Must(args...)
}

// exec starts a command in a container; it and what it leaves hold the marker.
func (h *house) exec(container, script string) *stage.Process {
	return stage.Start(h.Instance.T, h.Docker.Command("exec", container, "/bin/sh", "-c", "exec 9>"+h.left.Path+"; echo up >&9; "+script))
}

// untouched fails if a process of the container itself has changed.
func (h *house) untouched() {
	h.Instance.T.Helper()
	if now := h.Docker.Must("top", "lngtest-box", "-o", "pid,args"); now != h.before {
		h.Instance.T.Errorf("the container had\n%s\nand has\n%s", h.before, now)
	}
}
