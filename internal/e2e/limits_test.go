//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// spin keeps a CPU busy for ten seconds, and says how much of it that got.
func spin() int {
	for began := time.Now(); time.Since(began) < 10*time.Second; {
	}
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used) // then it is 0
	fmt.Println(time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds())
	return 0
}

// limited runs a command in a session to its end, and returns the receipt, too.
func limited(i *stage.Instance, name, in string, words ...string) (*stage.Process, *api.Report) {
	i.T.Helper()
	cmd := i.Command(append([]string{"run", "--name", name}, words...), nil)
	cmd.Stdin = strings.NewReader(in)
	return stage.Start(i.T, cmd).Wait(), i.Receipt(name)
}

// TestLimits: the kernel holds sessions to their limits, they go on, and none leaves a cgroup behind.
func TestLimits(t *testing.T) {
	i, mount := stage.NewDaemon(t), stage.Mounted("cgroup2", "")
	controllers, _ := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
	if !strings.Contains(string(controllers), "memory") {
		const reason = "this host's cgroup v2 has no memory controller"
		p := i.Lineage("run", "--memory", "64MiB", "--", "echo", "ran")
		require.Equal(t, fmt.Sprintf("%d %s%s", p.Code(), &p.Out, &p.Err), "125 lineage: "+reason+"\n")
		require.Equal(t, stage.Groups(), 0)
		i.Must("run", "--memory", "64MiB", "--limits-if-possible", "--", "true")
		t.Skip(reason)
	}
	on := func(name string, test func(i *stage.Instance)) {
		t.Run(name, func(t *testing.T) {
			i := i.In(t)
			test(i)
			i.Until("end of the cgroups", func() bool { return stage.Groups() == 0 })
		})
	}
	on("memory", func(i *stage.Instance) {
		p, r := limited(i, "big", "", "--memory", "64MiB", "--", "sh", "-c", `"$0" memory; test $? = 137`, stage.Program("dies"))
		require.Equal(i.T, p.Code(), 0)
		require.Equal(i.T, fmt.Sprint(r.Limits.MemoryBytes>>20, r.Account.OOMKills), "64 1")
	})
	on("tasks", func(i *stage.Instance) {
		p, r := limited(i, "many", "fork\nthread\nfork\n", "--max-tasks", "20", "--", stage.Program("forks"), "19")
		require.Equal(i.T, p.Out.String(), "ready\nfork 11\nthread 11\nfork 11\n") // EAGAIN
		require.Equal(i.T, p.Code(), 0)
		require.Equal(i.T, r.Limits.Tasks, 20)
	})
	on("cpus", func(i *stage.Instance) {
		self, err := os.Executable()
		require.NoError(i.T, err)
		p, r := limited(i, "busy", "", "--cpus", "0.2", "--", i.Copy(self), "lngtest-spin")
		used, counted, all := 0.0, r.Account.CPUSeconds, (p.ProcessState.UserTime() + p.ProcessState.SystemTime()).Seconds()
		if fmt.Sscan(p.Out.String(), &used); used == 0 || used > 5 || counted < 0.95*used || counted > 1.05*all {
			i.T.Errorf("10 s: %v s of CPU time are counted", counted)
		}
		i.T.Logf("figure: %.3f s of CPU time in 10 s, counted: %.3f s, with its exit and run: %.3f s", used, counted, all)
	})
	on("nested", func(i *stage.Instance) {
		p, r := limited(i, "outer", "", "--memory", "64MiB", "--", stage.Lineage, "run", "--memory", "256MiB",
			"--", stage.Program("dies"), "memory")
		require.Equal(i.T, p.Code(), 137)
		require.Contains(i.T, p.Err.String(), "lngtest-dies, its child, was killed by SIGKILL by the OOM killer")
		require.Equal(i.T, r.Account.OOMKills, 1)
		require.Equal(i.T, r.Account.MemoryPeakBytes <= 64<<20, true)
	})
	on("leaves", func(i *stage.Instance) {
		p := i.Start([]string{"run", "--name", "gone", "--memory", "64MiB", "--", "sh", "-c", `echo $$ >"$0" && exec sleep 60`,
			filepath.Join(mount, "cgroup.procs")}, nil)
		i.Until("a member outside", func() bool {
			all := stage.Query[api.Sessions](i, "ls").Items
			return len(all) == 1 && all[0].Limits != nil && all[0].Limits.Unlimited == 1
		})
		i.End("gone")
		p.Wait()
	})
}
