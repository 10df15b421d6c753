//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// The daemon is stopped, the ring overflows, and a process dies whose death ends its session:
// the event is lost for good. The session still ends when the daemon continues, and its verdict
// has the proof.
func TestUnheardDeaths(t *testing.T) {
	for _, level := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("level %d", level), func(t *testing.T) {
			d := newDeafened(t, level)
			for _, tt := range []struct {
				name, reason string
				start        func(*deafened) *doomed
			}{
				{"root", "root_exit", (*deafened).root},
				{"owner", "owner_exit", (*deafened).owner},
				{"nested root", "root_exit", (*deafened).nestedRoot},
			} {
				t.Run(tt.name, func(t *testing.T) { d.in(t).check(tt.start, tt.reason) })
			}
		})
	}
}

// deafened is a daemon with the smallest ring, and a session whose forks overflow it.
type deafened struct {
	*stage.Instance
	daemon *stage.Process
	storm  *stormer
	kernel kernelSide
}

func newDeafened(t *testing.T, level int) *deafened {
	t.Helper()
	i := stage.New(t)
	policy := i.Policy("daemon: {ring_size: 64KiB, self_check: 0}\n")
	d := &deafened{Instance: i, daemon: i.Daemon("--policy", policy, "--level", fmt.Sprint(level))}
	tracertest.NeedsLevel(t, level, i.Status().Level)
	// The end of the daemon's first canary triggers a pass, which would also find other dead processes.
	i.Until("self-check", func() bool { return i.Status().SelfCheck != nil })
	d.storm, d.kernel = newStormer(i, "storm"), kernelSideOf(i)
	t.Cleanup(func() {
		i.End("--now", "storm")
		d.storm.m.MustBeGone()
		d.storm.Wait()
	})
	return d
}

func (d *deafened) in(t *testing.T) *deafened {
	c := *d
	c.Instance = d.In(t)
	return &c
}

// doomed is a session that must end when one process dies.
type doomed struct {
	id      string
	m       *stage.Marker
	run     *stage.Process
	dies    int
	outside bool   // the process is an owner: the kernel reports no death of an outsider
	after   func() // more checks when it has ended
}

// check kills the process while the ring is full, and demands the end of its session.
func (d *deafened) check(start func(*deafened) *doomed, reason string) {
	d.T.Helper()
	x := start(d)
	resume := d.stop()
	d.fill()
	d.kill(x.dies)
	began := resume()
	x.m.Gone()
	gone := time.Since(began)
	r := d.Receipt(x.id)
	d.T.Logf("figure: %s: after SIGCONT the members were gone in %v and the verdict was given in %v",
		d.T.Name(), gone.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if r.EndReason != reason || r.Verdict != "clean" || r.Left != 0 {
		d.T.Errorf("ended by %s, verdict %s (%s), %d left; want %s and clean", r.EndReason, r.Verdict, r.VerdictWhy, r.Left, reason)
	}
	if n := stage.NodesOf(d.Tree(x.id))[x.dies]; n.Signal != "" || n.ExitCode != nil || n.PID == 0 && !x.outside {
		d.T.Errorf("the daemon was told of the death: %+v", n)
	}
	x.after()
}

// stop stops the daemon until resume is called, or the test is over.
func (d *deafened) stop() (resume func() time.Time) {
	d.T.Helper()
	send := func(sig unix.Signal) {
		if err := d.daemon.Process.Signal(sig); err != nil {
			d.T.Error(err)
		}
	}
	d.T.Cleanup(func() { send(unix.SIGCONT) })
	send(unix.SIGSTOP)
	d.Until("stop of the daemon", func() bool {
		return strings.HasPrefix(stage.ProcStatus(d.daemon.Process.Pid, "State"), "T")
	})
	return func() time.Time {
		began := time.Now() // the daemon may run before we run again
		send(unix.SIGCONT)
		return began
	}
}

// fill overflows the ring with small and large events, so that there is no room for another event.
func (d *deafened) fill() {
	d.T.Helper()
	before := d.lost()
	d.storm.storm(400)
	d.storm.calm()
	if n := d.lost() - before; n < 400 {
		d.T.Fatalf("only %d events were lost: the ring may have room", n)
	}
}

// lost is how many events the kernel has counted as lost. The stopped daemon cannot be asked.
func (d *deafened) lost() (sum uint64) {
	d.T.Helper()
	var perCPU []uint64
	require.NoError(d.T, d.kernel[bpf.LineageMapCounters].Lookup(uint32(bpf.LineageCounterCOUNT_LOST), &perCPU))
	for _, n := range perCPU {
		sum += n
	}
	return sum
}

// kill returns when the last thread of the process has passed the kernel's exit hooks.
func (d *deafened) kill(pid int) {
	d.T.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	require.NoError(d.T, err)
	defer unix.Close(fd)
	require.NoError(d.T, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	d.Until("death", func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n == 1
	})
}

// daemonised is a session of a root that waits, and a daemonised member.
func (d *deafened) daemonised(name string) *doomed {
	m := stage.NewMarker(d.T, d.Dir)
	x := &doomed{m: m, run: d.Run(m, []string{"--name", name}, "daemonise", "stay"), after: func() {}}
	m.Members(1)
	m.Ready()
	s := d.Session(name)
	x.id, x.dies = s.ID, s.Root.PID
	return x
}

func (d *deafened) root() *doomed {
	x := d.daemonised("root")
	x.after = func() {
		if x.run.Wait(); x.run.Code() != 128+int(unix.SIGKILL) {
			d.T.Errorf("%v", x.run)
		}
	}
	return x
}

func (d *deafened) owner() *doomed {
	x := d.daemonised("owner")
	x.dies, x.outside = x.run.Process.Pid, true
	return x
}

// nestedRoot is the root of a session whose outer session must stay active.
func (d *deafened) nestedRoot() *doomed {
	m, outer := stage.NewMarker(d.T, d.Dir), stage.NewMarker(d.T, d.Dir)
	script := fmt.Sprintf("%s run --name inner -- %s stay; exec 9>%s; sleep 60", stage.Lineage, stage.Program("daemonise"), outer.Path)
	run := d.Start([]string{"run", "--name", "outer", "--", "sh", "-c", script}, m.Env())
	m.Members(1)
	m.Ready()
	s := d.Session("inner")
	return &doomed{id: s.ID, m: m, dies: s.Root.PID, after: func() {
		outer.Wait("next command of the outer session", func(alive bool) bool { return alive })
		if s := d.Session("outer"); s.State != "active" {
			d.T.Errorf("the outer session is %s", s.State)
		}
		d.Finish(outer, run, "--now", "outer")
	}}
}
