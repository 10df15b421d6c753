//go:build linux

package attribution_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// What a server forks right after a member asked it is likely the member's, but not
// certainly: it is shown, and ends only if the policy says all.
func TestBrokeredBySocket(t *testing.T) {
	for end, dies := range map[string]bool{"strong": false, "all": true, "none": false} {
		w := newWork(t, enforced+"brokers: {end: "+end+"}\n")
		w.outsider(30, 1, "tmux")
		w.File(30, "cmdline", "tmux\x00-L\x00a\x00new\x00-d\x00")
		w.outsider(31, 1, "tmux") // another server
		w.File(31, "cmdline", "tmux\x00-L\x00b\x00new\x00-d\x00")
		w.outsider(299, 30, "lngtest-before")
		w.runs(101, "/usr/bin/tmux", "-L", "a", "new-session", "-d", "sleep 9")
		w.outsider(312, 31, "lngtest-theirs")
		w.outsider(300, 30, "lngtest-pane")
		w.outsiderOf(1001, 310, 30, "lngtest-other")
		w.outsider(311, daemontest.Shell, "lngtest-else")
		w.K.Exit(101, 0)
		w.look()
		b := w.brokered(1)[0]
		if b.State != "attributed" || b.Broker != "tmux" || b.Asked.PID != 101 || len(b.Asked.Argv) != 6 || b.Time == nil ||
			b.Evidence.Source != "socket" || b.Evidence.Confidence != "weak" || b.Ends != dies || b.Session == w.s.ID || b.Process.PID != 300 {
			t.Errorf("%s: %+v", end, b)
		}
		var orphans []api.Orphan
		w.Until(func() bool {
			orphans = daemontest.Get[api.Orphans](w, "user", "/v1/orphans?session="+b.Session).Items
			return len(orphans) == 1
		})
		if orphans[0].PID != 300 || orphans[0].Delegated == nil || orphans[0].Delegated.Evidence.Source != "socket" || orphans[0].State != "live" {
			t.Errorf("%+v", orphans)
		}
		if got := w.planned(b.Session); got[300] != "root (socket), weak" {
			t.Errorf("%+v", got)
		}
		w.K.Exit(100, 0)
		if r := w.Receipt(w.s.ID); len(r.Delegated) != 1 || r.Verdict != "clean" {
			t.Errorf("%+v", r)
		}
		w.look()
		if dies {
			if r := w.Receipt(b.Session); r.EndReason != "ancestor" || r.Verdict != "clean" {
				t.Errorf("%+v", r)
			}
		}
		if w.Dead(300) != dies {
			t.Errorf("%s: %+v", end, w.K.Proc(300))
		}
		for _, pid := range []uint32{30, 31, 299, 310, 311, 312} {
			if p := w.K.Proc(pid); p == nil || p.Dead || p.Session != 0 {
				t.Errorf("%s: %+v", end, p)
			}
		}
	}
}

// A server's child that has not yet execed the work's program is no evidence.
func TestBrokeredBefore(t *testing.T) {
	w := newWork(t, enforced)
	w.outsider(30, 1, "tmux")
	w.outsider(31, 1, "containerd-shim-runc-v2")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	w.runs(102, "/usr/bin/docker", "run", "alpine")
	w.unseen(func() {
		w.outsider(300, 30, "tmux")
		w.outsider(302, 30, "utempter") // tmux's own
		w.outsider(305, 30, "tmux")     // only its link shows tmux
		w.K.Edit(305, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
		w.outsider(301, 31, "runc:[2:INIT]")
		w.Exe(301, "/memfd:runc_cloned:/proc/self/exe (deleted)")
		w.File(301, "cgroup", "0::/docker/"+fmt.Sprintf("%064x", 1)+"\n")
	})
	w.look()
	w.unseen(func() {
		w.outsider(304, 31, "runc:[2:INIT]")
		w.Exe(304, "/") // a detached mount of runc's file
		w.File(304, "cgroup", "0::/docker/"+fmt.Sprintf("%064x", 2)+"\n")
		// Nor is one in the middle of its exec, whose environment is not there yet.
		w.outsider(303, 30, "lngtest-execs")
		w.File(303, "environ", "")
		w.File(303, "stat", "303 (lngtest) R"+strings.Repeat(" 0", 40))
	})
	w.look()
	w.Until(func() bool { return w.in(305) != "" })
	w.outside(300, 301, 302, 303, 304)
	w.unseen(func() {
		w.Environ(303, "A=1", w.token())
		w.become(300, "lngtest-pane", w.token())
		w.become(301, "lngtest-box", "A=1")
	})
	w.look()
	w.members(300, 303)
	w.beside(301)
}

// A process whose parent has changed since the walk is attributed by the new parent.
func TestBrokeredReparented(t *testing.T) {
	w := newWork(t, enforced)
	w.outsider(30, 1, "runc")
	w.outsider(31, 1, "containerd-shim-runc-v2")
	w.runs(101, "/usr/bin/docker", "run", "alpine")
	w.unseen(func() {
		w.outsider(300, 30, "lngtest-box", w.token())
		w.File(300, "stat", daemontest.StatOf(300, "lngtest-box", "S", 31))
	})
	w.look()
	w.attributed(300)
	if b := w.brokered(1)[0]; b.Broker != "docker" || b.Asked == nil || b.Asked.PID != 101 {
		t.Errorf("%+v", b)
	}
}

// A unit that a member named is the session's, if it was made for that, and if the
// member could have ended it itself.
func TestBrokeredByUnit(t *testing.T) {
	w := newWork(t, enforced)
	w.Proc(1, 0, 0, "systemd")
	w.outsider(30, 1, "systemd")
	begins := func(pid uint32, cgroup string) {
		t.Helper()
		manager := uint32(30)
		if strings.HasPrefix(cgroup, "/system.slice/") {
			manager = 1
		}
		w.unseen(func() {
			w.outsider(pid, manager, "lngtest-unit")
			w.File(pid, "cgroup", "0::"+cgroup+"\n")
		})
	}
	unit := func(pid uint32, cgroup string) {
		t.Helper()
		dir := filepath.Join(w.Dir, "run/systemd/transient")
		if strings.Contains(cgroup, "user@1000") {
			dir = filepath.Join(w.Dir, "run/user/1000/systemd/transient")
		}
		require.NoError(t, os.MkdirAll(dir, 0o700))
		path := filepath.Join(dir, filepath.Base(cgroup))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		at := w.Host.Clock.Zero().Add(w.K.Now())
		require.NoError(t, os.Chtimes(path, at, at))
		begins(pid, cgroup)
	}
	const manager = "/user.slice/user-1000.slice/user@1000.service/app.slice/"
	begins(317, manager+"mine.service") // before the request
	w.runs(101, "/usr/bin/systemd-run", "--user", "--unit=mine", "sleep", "9")
	w.runs(102, "/usr/bin/systemd-run", "--unit=roots", "sleep", "9") // by 1000: another user's
	w.runs(103, "/usr/bin/systemd-run", "--user", "--unit=old", "sleep", "9")
	w.runs(104, "/usr/bin/systemd-run", "--user", "sleep", "9")
	unit(300, manager+"mine.service")
	unit(310, "/system.slice/roots.service")
	unit(311, "/system.slice/mine.service")
	begins(312, manager+"old.service") // not transient
	unit(313, strings.ReplaceAll(manager, "1000", "1001")+"mine.service")
	unit(314, manager+"run-u7.service")
	unit(315, "/system.slice/run-r8.service")
	begins(316, "/system.slice/lngtest-standing.service")
	w.look()
	w.members(300)
	w.beside(314, 315)
	w.outside(310, 311, 312, 313, 316, 317)

	// What the unit starts later, or again, is the session's too; a unit of that name
	// that another user makes later is not.
	w.K.Exit(101, 0)
	w.K.AllRead()
	w.K.Advance(time.Minute)
	begins(301, manager+"mine.service")
	w.look()
	w.Until(func() bool { return w.in(301) == w.s.ID })
	w.K.Exit(301, 0)
	unit(302, manager+"mine.service")
	w.look()
	w.outside(302)
}

// docks makes a container with one process, as dockerd keeps its record.
func (w *work) docks(pid uint32, n int, name string, created time.Duration) {
	w.Helper()
	id := fmt.Sprintf("%064x", n)
	shim, dir := 1000+pid, filepath.Join("docker/containers", id)
	bundle := filepath.Join("bundles", id)
	at := w.Host.Clock.Zero().Add(w.K.Now() + created).Format(time.RFC3339Nano)
	procfstest.Files(w, w.Dir, map[string]string{
		bundle + "/config.json": fmt.Sprintf(`{"mounts":[{"destination":"/etc/hostname","source":%q}]}`, filepath.Join(w.Dir, dir, "hostname")),
		dir + "/config.v2.json": fmt.Sprintf(`{"ID":%q,"Name":"/%s","Created":%q}`, id, name, at),
	})
	w.unseen(func() {
		w.outsiderOf(0, shim, 1, "containerd-shim-runc-v2")
		os.Remove(w.Host.Proc.Path(shim, "cwd"))
		os.Symlink(filepath.Join(w.Dir, bundle), w.Host.Proc.Path(shim, "cwd"))
		os.Symlink("/", w.Host.Proc.Path(shim, "root"))
		w.outsiderOf(0, pid, shim, "lngtest-box")
		w.File(pid, "cgroup", "0::/docker/"+id+"\n")
	})
}

// asksDocker runs docker's client as a child of the root.
func (w *work) asksDocker(pid, uid uint32, words ...string) {
	w.Helper()
	w.K.Fork(100, pid, "docker")
	w.K.Edit(pid, func(p *kerneltest.Proc) { p.UID = uid })
	w.K.Advance(time.Second)
	w.K.Exec(pid, "/usr/bin/docker", "docker\x00"+strings.Join(words, "\x00")+"\x00")
	w.K.AllRead()
}

// A container that root named is the session's, according to docker's own record.
func TestBrokeredByContainer(t *testing.T) {
	w := newWork(t, enforced)
	w.asksDocker(103, 0, "exec", "theirs", "sh") // which begins no container
	w.asksDocker(101, 0, "run", "-d", "--name", "mine", "alpine")
	w.asksDocker(102, 1000, "run", "-d", "--name", "users", "alpine")
	w.docks(300, 1, "mine", 0)
	w.docks(301, 2, "theirs", 0)
	w.docks(302, 3, "mine", -2*time.Second) // made before the request
	w.docks(303, 4, "users", 0)             // docker would let that user end any container
	w.K.Exit(101, 0)
	w.K.Exit(102, 0)
	w.look()
	w.members(300)
	w.beside(302, 303)
	w.outside(301)
	// It has no right over another user's work because of a coincidence.
	w.Do("user", "POST", "/v1/sessions/"+w.in(302)+"/end", api.EndRequest{}).Refused(api.CodeNotFound)
}

// Each container belongs to one request, and is found by its name.
func TestBrokeredContainersInOrder(t *testing.T) {
	w := newWork(t, enforced)
	w.asksDocker(101, 0, "run", "-d", "--name", "a", "alpine")
	w.asksDocker(102, 0, "run", "-d", "alpine")
	w.asksDocker(103, 0, "run", "-d", "alpine")
	w.docks(300, 1, "a", 0)
	w.docks(301, 2, "brave_hopper", 0)
	w.docks(302, 3, "calm_lovelace", 0)
	w.look()
	shown := func() string {
		var all []string
		for _, b := range w.doc().Delegated {
			if b.State != "attributed" {
				continue
			}
			all = append(all, fmt.Sprintf("%d %s %s for %d", b.Process.PID, b.Process.Container, b.Evidence.Source, b.Asked.PID))
		}
		return strings.Join(all, ", ")
	}
	w.Until(func() bool { // the list has requests without a process, too
		return shown() == "300 a container for 101, 301 brave_hopper socket for 102, 302 calm_lovelace socket for 103"
	})
	for pid, want := range map[uint32]string{300: "", 301: "brave_hopper"} { // the first one of a companion session
		if s := daemontest.Get[api.Session](w, "root", "/v1/sessions/"+w.in(pid)); s.Container.String() != want {
			t.Errorf("the session of pid %d: %+v", pid, s)
		}
	}
	w.K.Fork(300, 310, "lngtest-inner")
	w.become(300, "lngtest-app") // it was looked at before its exec
	w.Until(func() bool { return w.doc().Delegated[0].Process.Comm == "lngtest-app" })
	w.K.Exit(100, 0)
	for _, p := range w.Receipt(w.s.ID).Processes {
		if want := map[int]string{300: "a", 310: "a"}[p.PID]; p.Container.String() != want {
			t.Errorf("%+v", p)
		}
	}
}

// A job of at(1) is found by the environment that is stored with it, also after its
// session has ended.
func TestBrokeredByJob(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/at", "now")
	w.K.Exit(101, 0)
	w.runs(102, "/usr/bin/at", "now", "+", "1", "day") // what begins first is most likely the one before
	w.K.Exit(102, 0)
	job := func(pid uint32, script string) {
		t.Helper()
		w.unseen(func() {
			w.outsider(pid, 30, "lngtest-sh", "SHELL=/bin/sh")
			w.File(pid, "fd/0", "#!/bin/sh\n# atrun uid=1000\n"+script)
			if err := os.Chown(w.Host.Proc.Path(pid, "fd/0"), int(w.K.Proc(pid).UID), -1); err != nil {
				t.Skip("needs root")
			}
		})
	}
	w.outsiderOf(0, 30, 1, "atd")
	job(300, w.token()+"; export LINEAGE_TOKEN\nsleep 9\n")
	job(301, "LINEAGE_TOKEN=OTHER; export LINEAGE_TOKEN\n")
	w.look()
	w.attributed(300)
	all := w.brokered(2)
	b := all[slices.IndexFunc(all, func(b api.Delegated) bool { return b.State == "attributed" })]
	if b.Broker != "atd" || b.Asked.PID != 101 || w.in(301) != "" {
		t.Errorf("%+v, 301 %s", b, w.in(301))
	}
	w.K.Exit(100, 0)
	w.Receipt(w.s.ID)
	job(302, w.token()+"; export LINEAGE_TOKEN\nsleep 9\n")
	w.look()
	late := w.brokered(2)[1]
	if late.Asked.PID != 102 {
		t.Errorf("%+v", late)
	}
	w.look()
	if r := w.Receipt(late.Session); r.EndReason != "ancestor" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}

// What an ssh connection of this host left behind belongs to the request for that connection.
func TestBrokeredBySSH(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/usr/bin/ssh", "localhost", "setsid -f sleep 9")
	w.outsider(300, 1, "lngtest-left", "SSH_CONNECTION=127.0.0.1 5 127.0.0.1 22", w.token())
	w.outsider(301, 1, "lngtest-else", w.token())
	w.K.Exit(101, 0)
	w.look()
	asked := make(map[int]int)
	for _, b := range w.brokered(2) {
		if asked[b.Process.PID] = 0; b.Asked != nil {
			asked[b.Process.PID] = b.Asked.PID
		}
	}
	if asked[300] != 101 || asked[301] != 0 {
		t.Errorf("asked for by %v", asked)
	}
	w.K.Exit(100, 0)
	for _, b := range w.Receipt(w.s.ID).Delegated {
		if b.State != "attributed" {
			t.Errorf("%+v", b)
		}
	}
}

// A variable is evidence if members of one session have it, and no process around it
// does.
func TestBrokeredByCookie(t *testing.T) {
	w := newWork(t, enforced)
	w.Environ(daemontest.Self, "BUILD_ID=daemon")
	w.Environ(daemontest.User, "RUNNER_TRACKING_ID=job")
	w.Environ(100, "JENKINS_NODE_COOKIE=root")
	w.Fork(100, 101, 1000, "lngtest-member")
	w.Environ(101, "RUNNER_TRACKING_ID=job", "BUILD_ID=daemon", "JENKINS_NODE_COOKIE=root", "CLAUDE_CODE_SESSION_ID=inner")
	w.outsider(300, 1, "lngtest-a", "CLAUDE_CODE_SESSION_ID=inner")
	w.outsider(310, 1, "lngtest-b", "RUNNER_TRACKING_ID=job")
	w.outsider(311, 1, "lngtest-c", "BUILD_ID=daemon")
	w.outsider(313, 1, "lngtest-e", "JENKINS_NODE_COOKIE=root")
	w.outsiderOf(1001, 312, 1, "lngtest-d", "CLAUDE_CODE_SESSION_ID=inner")
	w.look()
	b := w.brokered(1)[0]
	if b.Process.PID != 300 || b.Evidence.Source != "cookie" || b.Evidence.Confidence != "weak" || w.in(300) == w.s.ID {
		t.Errorf("%+v", b)
	}
	w.outside(310, 311, 312, 313)
}

// What is in the POSIX session or the process group that a member leads is
// likely its own.
func TestBrokeredByPosix(t *testing.T) {
	w := newWork(t, enforced)
	for pid, sid := range map[uint32]uint32{300: 100, 301: 1, 302: daemontest.Shell} {
		w.placed(pid, 1, sid, sid, 0)
	}
	w.placed(303, 1, daemontest.Shell, 100, 0)
	w.look()
	for _, b := range w.brokered(2) {
		if want := map[int]string{300: "sid", 303: "pgrp"}[b.Process.PID]; b.Evidence.Source != want || b.Evidence.Confidence != "weak" {
			t.Errorf("%+v", b)
		}
	}
	w.beside(300, 303)
	w.outside(301, 302)
}
