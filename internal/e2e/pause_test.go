//go:build linux

package e2e

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// TestPause pauses a session that forks all the time: it stands still, also over a restart of the daemon, continues
// when it is resumed, and ends without that.
func TestPause(t *testing.T) {
	i := stage.New(t)
	d := i.Daemon()
	i.Start([]string{"run", "--name", "busy", "--", "sh", "-c", "while :; do /bin/true; done & while :; do /bin/true; done"}, nil)
	busy := func() *api.Session {
		list := stage.Query[api.Sessions](i, "ls").Items
		at := slices.IndexFunc(list, func(s api.Session) bool { return s.Name == "busy" })
		if at < 0 {
			return &api.Session{}
		}
		return &list[at]
	}
	forks := func(more int) func() bool { return func() bool { return busy().Forks > more } }
	i.Until("it forks", forks(10))
	still := func() {
		t.Helper()
		before := busy()
		if before.Paused == nil {
			t.Fatalf("%+v", before)
		}
		for _, n := range i.Tree("busy").Nodes {
			if n.State == "live" && n.Task != "T" && n.Task != "D" { // D: in vfork, while its child is stopped
				t.Errorf("%d %q is in state %s", n.PID, n.Argv, n.Task)
			}
		}
		if now := busy(); now.Forks != before.Forks {
			t.Errorf("%d forks, then %d", before.Forks, now.Forks)
		}
	}
	require.Contains(t, i.Must("pause", "busy").Out.String(), "stopped")
	require.Contains(t, i.Must("ls", "--state", "paused").Out.String(), "paused")
	still()
	d.Stop()
	i.Daemon()
	still()
	require.Contains(t, i.Must("tree", "busy").Out.String(), "paused")
	require.Contains(t, i.Must("resume", "busy").Out.String(), "continued")
	i.Until("it forks again", forks(busy().Forks+10))

	i.Must("pause", "busy")
	i.Must("end", "busy", "--grace", "10m", "--yes")
}

// TestPauseContinued has an outsider continue a paused session all the time: every surface says that it runs, and who
// continues it, and the daemon does not spend a CPU on that.
func TestPauseContinued(t *testing.T) {
	for _, level := range []int{4, 2} {
		for _, uid := range []int{0, stage.Nobody} {
			for _, period := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
				t.Run(fmt.Sprintf("level=%d/uid=%d/%v", level, uid, period), func(t *testing.T) { testContinued(t, level, uid, period) })
			}
		}
	}
}

func testContinued(t *testing.T, level, uid int, period time.Duration) {
	i := stage.New(t)
	d := i.Daemon("--level", strconv.Itoa(level))
	i.StartNobody(nil, "run", "--name", "busy", "--", "sh", "-c", "while :; do :; done")
	i.Until("session", func() bool { return len(stage.Query[api.Sessions](i, "ls").Items) == 1 })
	pid := i.Session("busy").Root.PID
	share := func(pid int) float64 { // of a CPU
		began, before := time.Now(), ticks(t, pid)
		time.Sleep(time.Second)
		return float64(ticks(t, pid)-before) / 100 / time.Since(began).Seconds()
	}
	i.Until("the member runs", func() bool { return ticks(t, pid) > 10 })
	free := share(pid)
	i.Must("pause", "busy")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		runtime.LockOSThread() // and never unlocked: the thread ends with its uid
		unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		for tick := time.NewTicker(period); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				unix.Kill(pid, unix.SIGCONT)
			}
		}
	}()
	began := time.Now()
	by := fmt.Sprintf("continued by %d ", os.Getpid())
	i.Until("the document", func() bool { c := i.Record("busy").Continued; return c != nil && c.By != nil })
	told := time.Since(began)
	for _, args := range [][]string{{"ls"}, {"tree", "busy"}, {"why", strconv.Itoa(pid)}} {
		i.Until(args[0], func() bool {
			said := i.Must(args...).Out.String()
			return strings.Contains(said, "paused, 1 running") && strings.Contains(said, by)
		})
	}
	paused, daemon := share(pid), share(d.Process.Pid)
	t.Logf("figure: free %.0f %%, paused %.0f %% of a CPU; the daemon %.1f %%; told after %v", 100*free, 100*paused, 100*daemon, told)
	close(stop)
	<-stopped
	i.Until("it is stopped again", func() bool { return i.Record("busy").Continued == nil })
	i.Must("end", "busy", "--now", "--yes")
}

// ticks is the CPU time of a process, in hundredths of a second.
func ticks(t *testing.T, pid int) (n int) {
	t.Helper()
	text := string(require.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid)))
	for _, f := range strings.Fields(text[strings.LastIndex(text, ")")+1:])[11:13] {
		n += stage.Number(t, f)
	}
	return n
}
