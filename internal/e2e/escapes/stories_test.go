//go:build linux

package escapes

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// manyInFewLines: 500 leftovers are reported as a summary, not a list.
func manyInFewLines(x *trial) func() {
	if s := x.Record(x.name); s.Live != 502 {
		x.t.Errorf("live %d, want 502", s.Live)
	}
	return func() {
		if n := strings.Count(x.run.Err.String(), "\n"); n > 30 {
			x.t.Errorf("run says %d lines", n)
		}
		if len(x.report.Processes) < 501 {
			x.t.Errorf("the receipt names %d processes", len(x.report.Processes))
		}
	}
}

// stoppedAtLimit: the limit ends it automatically, inside the kernel.
func stoppedAtLimit(x *trial) func() {
	return func() {
		if x.report.EndReason != "max_processes" {
			x.t.Errorf("ended by %q", x.report.EndReason)
		}
		// The process above the limit is entered before it dies. At level 2 no hook can
		// kill it, and the daemon's pass comes a little later.
		if s := x.Record(x.name); s.Peak > 101 && x.host.reached > 2 {
			x.t.Errorf("peak %d", s.Peak)
		}
	}
}

// shown: the file that a member runs is reported though it has no name.
func shown(exe string) func(*trial) func() {
	return func(x *trial) func() {
		for pid := range x.m.Members(1) {
			if why := stage.Query[api.Why](x.Instance, "why", strconv.Itoa(pid)); !strings.Contains(why.Process.Exe, exe) {
				x.t.Errorf("exe %q, want %q", why.Process.Exe, exe)
			}
		}
		return nil
	}
}

// refusedToNobody: a user without rights cannot end it, whatever uid its members have.
func refusedToNobody(x *trial) func() {
	p := x.StartNobody(nil, "end", "--yes", "--now", x.name).Wait()
	if p.Code() != api.ExitNotFound {
		x.t.Errorf("want exit %d: %v", api.ExitNotFound, p)
	}
	if !x.m.Drain() {
		x.t.Error("ended by nobody")
	}
	return nil
}

// leftUntilThawed: it is named in bounded time, with the reason, and not forgotten.
func leftUntilThawed(x *trial) func() {
	freezer := x.expanded["{freezer}"]
	thaw := func() {
		if err := os.WriteFile(filepath.Join(freezer, "freezer.state"), []byte("THAWED"), 0); err != nil && !os.IsNotExist(err) {
			x.t.Error(err)
		}
	}
	x.t.Cleanup(thaw)
	return func() {
		r := x.report
		var reasons []string
		for _, p := range r.Processes {
			if p.Outcome == "left" {
				reasons = append(reasons, p.Why)
			}
		}
		if r.Verdict != "left" || r.Left != 1 || len(reasons) != 1 || !strings.Contains(reasons[0], "frozen") {
			x.t.Errorf("want one left, frozen: %s", x.inShort())
		}
		if asked := x.host.failure == rootAlive; asked && x.code != api.ExitLeft {
			x.t.Errorf("end: exit %d, want %d", x.code, api.ExitLeft)
		}
		if n := len(x.survivors()); n != 1 {
			x.t.Errorf("%d alive, want 1", n)
		}
		thaw()
		x.m.Gone()
		x.Until("end of the session", func() bool { return x.Record(x.name).State == "ended" })
		x.run.Wait()
	}
}

// zombiesNamed: zombies are not survivors, and the process that must reap them is named.
func zombiesNamed(x *trial) func() {
	reaper := x.run.Process.Pid
	return func() {
		named := 0
		for _, z := range x.report.Zombies {
			if z.Reaper != nil && z.Reaper.PID == reaper {
				named++
			}
		}
		if named < 500 {
			x.t.Errorf("%d of %d zombies are named with reaper %d, want 500: %s", named, len(x.report.Zombies), reaper, x.inShort())
		}
	}
}

// recycled: an outsider has the PID, and leads the group, of a member that died.
func recycled(x *trial) func() {
	pid := stage.Number(x.t, x.m.Line("gone", 1)[0])
	return stage.NewBystander(x.Instance, "lngtest-gone", pid).MustBeUntouched
}

// growWithoutDaemon: children that were born without a daemon.
func growWithoutDaemon(x *trial) func() {
	const births = 3
	x.host.lose(x.t)
	grower := stage.Number(x.t, x.m.Line("grower", 1)[0])
	for n := range births { // signals do not queue
		x.kill(grower, unix.SIGUSR1)
		x.m.Members(n + 1)
	}
	x.host.serve(x.t)
	born := x.m.Members(births)
	nodes := stage.NodesOf(stage.Query[api.Tree](x.Instance, "tree", x.name))
	for pid, creator := range born {
		if n, ok := nodes[pid]; !ok || n.State != "live" || n.Creator == nil || n.Creator.PID != creator {
			x.t.Errorf("the next daemon shows %d, child of %d, as %+v", pid, creator, n)
		}
	}
	return func() {
		if x.report.Started != 2+births {
			x.t.Errorf("started %d, want %d: %s", x.report.Started, 2+births, x.inShort())
		}
	}
}

// Held ports and locks are named only if the end was requested: then they were read first.

// portAndClient: the listener is ended, its client is not, and the port can be bound
// when the end is over.
func portAndClient(x *trial) func() {
	at := "127.0.0.1:" + x.m.Line("port", 1)[0]
	conn, err := net.Dial("tcp", at)
	require.NoError(x.t, err)
	defer conn.Close()
	socket, err := conn.(*net.TCPConn).File()
	require.NoError(x.t, err)
	defer socket.Close()
	client := stage.NewBystander(x.Instance, "lngtest-client", 0, socket)
	return func() {
		client.MustBeUntouched()
		port := func(p api.Port) bool { return strconv.Itoa(p.Port) == x.m.Lines("port")[0][0] }
		if x.host.failure == rootAlive && !slices.ContainsFunc(x.report.PortsFreed, port) {
			x.t.Errorf("the receipt does not name the port: %s", x.inShort())
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			x.t.Errorf("the port is not free: %v", err)
			return
		}
		l.Close()
	}
}

// locksReleased: the next process gets the locks.
func locksReleased(x *trial) func() {
	return func() {
		for name, take := range map[string]func(fd int) error{
			"flock": func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) },
			"posix": func(fd int) error {
				return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
			},
		} {
			f, err := os.OpenFile(filepath.Join(x.Dir, name), os.O_RDWR, 0)
			if err == nil {
				err = take(int(f.Fd()))
				f.Close()
			}
			if err != nil {
				x.t.Errorf("lock %s: %v", name, err)
			}
			path := filepath.Join(x.Dir, name)
			named := func(l api.Lock) bool { return l.Path == path }
			// Without a grace, signals do not wait until holds are read.
			if x.host.failure == rootAlive && x.grace > 0 && !slices.ContainsFunc(x.report.LocksReleased, named) {
				x.t.Errorf("the receipt does not name %s: %s", path, x.inShort())
			}
		}
		if err := os.Remove(filepath.Join(x.Dir, "index.lock")); err != nil {
			x.t.Error(err)
		}
	}
}

// lookalike: nothing but the session tells it from a member.
func lookalike(x *trial) func() {
	return stage.NewBystander(x.Instance, "lngtest-gone", 0).MustBeUntouched
}

// sharedParent: an orphan of another live session, whose parent is the same
// process as that of this session's orphan.
func sharedParent(x *trial) func() {
	name := x.name + "-other"
	m := stage.NewMarker(x.t, x.Dir)
	other := stage.StartBystander(m, x.Command([]string{"run", "--name", name, "--grace", "0s", "--subreaper=false",
		"--", stage.Program("under"), "orphan", "bystander", "lngtest-detach"}, m.Env()))
	for pid := range x.m.Members(1) {
		x.Until("orphan of the same parent", func() bool {
			return stage.ProcStatus(pid, "PPid") == stage.ProcStatus(other.PID, "PPid")
		})
	}
	return func() {
		if err := other.Untouched(); err != nil {
			x.t.Error(err)
		}
		x.End(name)
		m.MustBeGone()
		other.Wait()
	}
}
