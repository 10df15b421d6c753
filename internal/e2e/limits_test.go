//go:build linux

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
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
	i, mount := stage.New(t), stage.Mounted("cgroup2", "")
	i.Daemon("--policy", i.Policy("mode: enforce\ndefaults: {limits: {leave: return}}\n"))
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
		said := regexp.MustCompile(`(?m)^lineage: \d+ lngtest-dies was killed by the OOM killer: memory limit 64MiB of session big, it had [56]\d(\.\d)?MiB(; peak 64MiB)?$`)
		if !said.MatchString(p.Err.String()) {
			i.T.Error(p)
		}
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
		require.Contains(i.T, p.Err.String(), "lngtest-dies, its child, was killed by the OOM killer: memory limit 64MiB of session outer")
		require.Equal(i.T, r.Account.OOMKills, 1)
		require.Equal(i.T, r.Account.MemoryPeakBytes <= 64<<20, true)
	})
	on("leaves", func(i *stage.Instance) {
		outer := filepath.Join(mount, "cgroup.procs")
		p := i.Start([]string{"run", "--name", "gone", "--memory", "64MiB", "--", "sh", "-c", `(echo 0 >"$0")
			for n in 0 1 2 3 4 5 6 7 8 9; do
				sh -c 'echo $$ >"$0"; echo own $$; exec sleep 600' "$0" &
				sleep 600 &
				echo by $!
			done; wait`, outer}, nil)
		i.Until("20 members", func() bool { return strings.Count(p.Out.String(), "\n") == 20 })
		left := make(map[string]bool)
		for line := range strings.Lines(p.Out.String()) {
			f := strings.Fields(line)
			if left[f[1]] = true; f[0] == "by" {
				require.NoError(i.T, os.WriteFile(outer, []byte(f[1]), 0))
			}
		}
		inside := func(pid string, _ bool) bool {
			in, _ := os.ReadFile("/proc/" + pid + "/cgroup") // it lives
			return strings.Contains(string(in), "lineage_")
		}
		i.Until("return of 20", func() bool { maps.DeleteFunc(left, inside); return len(left) == 0 })
		said := i.Must("events", "gone", "--type", "moved", "--since", "1h").Out.String()
		own := strings.Count(said, "its session's, on its own") // one exited at once
		by := strings.Count(said, "its session's, by ")
		require.Equal(i.T, fmt.Sprint(own, by), "11 10")
		require.Equal(i.T, i.Session("gone").Limits.Unlimited, 0)
		i.End("gone")
		p.Wait()
	})
	on("frozen", func(i *stage.Instance) {
		steps := filepath.Join(i.Dir, "steps")
		p := i.Start([]string{"run", "--name", "still", "--memory", "64MiB", "--", "sh", "-c", `while echo; do :; done >"$0"`, steps}, nil)
		made := func() int64 {
			st, _ := os.Stat(steps) // made by the shell
			if st == nil {
				return 0
			}
			return st.Size()
		}
		root := func() int { return i.Session("still").Root.PID }
		i.Until("steps", func() bool { return made() > 0 })
		i.Must("pause", "still")
		before, sent := made(), 0
		for began := time.Now(); time.Since(began) < 5*time.Second; sent++ {
			require.NoError(i.T, unix.Kill(root(), unix.SIGCONT))
		}
		i.T.Logf("figure: %d steps under %d SIGCONT", made()-before, sent)
		require.Equal(i.T, made(), before)
		i.Must("resume", "still")
		i.Until("steps again", func() bool { return made() > before })
		i.Must("pause", "still")
		i.End("--grace", "0s", "still") // thaws nothing
		require.Equal(i.T, p.Wait().Code(), 137)
	})
	on("killed", func(i *stage.Instance) { killedAtEachStep(i, mount) })
}

// killedAtEachStep kills the daemon after each of its steps in making and removing the cgroups of a session: the next
// one leaves none behind, and no session claims a limit that it has not.
func killedAtEachStep(i *stage.Instance, mount string) {
	for step := 1; ; step++ {
		daemon := i.Version().PID
		steps := killAfter(i.T, daemon, step)
		dead := func() bool {
			return stage.ProcStatus(daemon, "Pid") == "" || stage.ProcStatus(daemon, "State") == "Z (zombie)"
		}
		next := func() {
			i.Until("another daemon", func() bool { return i.Version() != nil || i.Daemon() != nil })
			for _, s := range stage.Query[api.Sessions](i, "ls").Items {
				if s.Limits != nil {
					in, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.Root.PID)) // it may have exited
					_, leaf, _ := strings.Cut(strings.TrimSpace(string(in)), "0::")
					limit, _ := os.ReadFile(filepath.Join(mount, filepath.Dir(leaf), "memory.max"))
					require.Equal(i.T, strings.TrimSpace(string(limit)), fmt.Sprint(s.Limits.MemoryBytes))
				}
			}
		}
		cmd := i.Command([]string{"run", "--name", "k", "--memory", "64MiB", "--", "sh", "-c", "echo ready; read x"}, nil)
		in, err := cmd.StdinPipe()
		require.NoError(i.T, err)
		p := stage.Start(i.T, cmd)
		i.Until("session, or a dead daemon", func() bool { return dead() || p.Out.String() == "ready\n" })
		early := dead()
		if early {
			next()
		}
		require.NoError(i.T, in.Close())
		p.Wait()
		i.Until("end of the cgroups", func() bool { return dead() && !early || stage.Groups() == 0 })
		if dead() && !early {
			next()
			i.Until("end of the cgroups", func() bool { return stage.Groups() == 0 })
		}
		done := steps()
		i.T.Logf("step %d of %d: run exited %d: %s", step, done, p.Code(), &p.Err)
		if !dead() {
			require.Equal(i.T, done < step && done >= 8, true)
			return
		}
	}
}

// killAfter has the kernel kill a process at the n-th time that it makes, removes or writes to a cgroup; done counts these.
func killAfter(t *testing.T, pid, n int) (done func() (times int)) {
	require.NoError(t, rlimit.RemoveMemlock())
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	require.NoError(t, err)
	const path, flags = 104, 96 // in the registers of x86-64
	read := func(from asm.Register, offset int32, read asm.BuiltinFunc) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(asm.R3, from), asm.Add.Imm(asm.R3, offset), asm.Mov.Imm(asm.R2, 8), asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, -8), read.Call(), asm.LoadMem(asm.R1, asm.RFP, -8, asm.DWord)}
	}
	code := slices.Concat(asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord), asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32), asm.JNE.Imm(asm.R0, int32(pid), "out"),
		asm.JEq.Imm(asm.R7, unix.SYS_MKDIRAT, "path"), asm.JEq.Imm(asm.R7, unix.SYS_UNLINKAT, "path"), asm.JNE.Imm(asm.R7, unix.SYS_OPENAT, "out"),
	}, read(asm.R6, flags, asm.FnProbeReadKernel), asm.Instructions{
		asm.And.Imm(asm.R1, unix.O_ACCMODE), asm.JNE.Imm(asm.R1, unix.O_WRONLY, "out"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("path"),
	}, read(asm.R6, path, asm.FnProbeReadKernel), asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
	}, read(asm.R6, int32(len("/sys/fs/")), asm.FnProbeReadUser), asm.Instructions{
		asm.LSh.Imm(asm.R1, 8), asm.LoadImm(asm.R2, int64(binary.LittleEndian.Uint64([]byte("\x00cgroup/"))), asm.DWord), asm.JNE.Reg(asm.R1, asm.R2, "out"),
		asm.StoreImm(asm.RFP, -8, 0, asm.Word), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -8),
		asm.LoadMapPtr(asm.R1, count.FD()), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.JNE.Imm(asm.R1, int32(n), "out"), asm.Mov.Imm(asm.R1, int32(unix.SIGKILL)), asm.FnSendSignal.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return(),
	})
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: code})
	require.NoError(t, err)
	hook, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: program})
	require.NoError(t, err)
	return func() (times int) {
		var n uint64
		require.NoError(t, errors.Join(count.Lookup(uint32(0), &n), hook.Close(), program.Close(), count.Close()))
		return int(n)
	}
}
