//go:build linux

package image

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"golang.org/x/sys/unix"
)

// name is the container's in the documented command.
const name = "lineage"

// serve runs the documented daemon, with the command changed. It reports whether the daemon
// answers on the host; otherwise its container has exited.
func (s *shop) serve(command string) bool {
	s.T.Helper()
	if p := s.sh(command).Wait(); p.Code() != 0 {
		s.T.Fatal(p)
	}
	s.T.Cleanup(s.unload)
	s.Until("daemon that answers, or its exit", func() bool { return s.Version() != nil || !s.running() })
	if !s.running() {
		return false
	}
	s.Until("self-check", func() bool { return s.Status().SelfCheck != nil })
	return true
}

func (s *shop) running() bool {
	s.T.Helper()
	return s.docker.Must("inspect", "-f", "{{.State.Running}}", name) == "true"
}

// unload removes everything from the kernel, as documented, and the container.
func (s *shop) unload() {
	if s.running() {
		if p := s.client(0, "", "daemon --unload --force"); p.Code() != 0 {
			s.T.Error(p)
		}
		s.Until("exit of the daemon", func() bool { return !s.running() })
	}
	s.docker.Must("rm", name)
	if left, _ := filepath.Glob("/sys/fs/bpf/lineage*"); len(left) > 0 {
		s.T.Errorf("pins are left: %v", left)
	}
}

// daemon is the documented command. The instance's directory, with what tests run, is in
// the container, too.
func (s *shop) daemon() string {
	s.T.Helper()
	return s.replaced(s.recipe("image-daemon"), "docker run ", fmt.Sprintf("docker run -v %s:%[1]s ", s.Dir))
}

func (s *shop) said() string {
	s.T.Helper()
	p := stage.Start(s.T, s.docker.Command("logs", name)).Wait()
	return p.Out.String() + p.Err.String()
}

// degraded fails unless this is the only thing that does not work as it should.
func (s *shop) degraded(want string) {
	s.T.Helper()
	if all := s.Status().Degraded; len(all) != 1 || !strings.Contains(all[0], want) {
		s.T.Errorf("degraded: %q, want %q", all, want)
	}
}

// traces fails unless what a run leaves behind is known while the run lives, and is ended
// with it.
func (s *shop) traces(start func(env []string, args ...string) *stage.Process) {
	s.T.Helper()
	m := stage.NewMarker(s.T, s.Dir)
	p := start(m.Env(), "run", "--name", "work", "--grace", "0s", "--", s.program("daemonise"), "await")
	left := s.member(m)
	why := stage.Query[api.Why](s.Instance, "why", fmt.Sprint(left))
	if why.Session == nil || why.Session.Name != "work" {
		s.T.Fatalf("why %d: %+v", left, why)
	}
	unix.Kill(why.Session.Root.PID, unix.SIGUSR1)
	if p.Wait(); p.Code() != 0 {
		s.T.Error(p)
	}
	m.MustBeGone()
	if r := s.Receipt(why.Session.ID); r.Verdict != "clean" || len(r.Processes) != 1 || r.Processes[0].PID != left {
		s.T.Errorf("receipt %+v", r)
	}
}

// program is a test program where every user and the container find it.
func (s *shop) program(name string) string { return s.Copy(stage.Program(name)) }

// member is the PID of the process that a program left behind.
func (s *shop) member(m *stage.Marker) (pid int) {
	s.T.Helper()
	m.Ready()
	for pid = range m.Members(1) {
	}
	return pid
}

// leaves starts a run as a user without rights, with a process that has left its tree.
func (s *shop) leaves(m *stage.Marker) (run *stage.Process, left int) {
	s.T.Helper()
	run = s.StartNobody(m.Env(), "run", "--name", "work", "--grace", "0s", "--", s.program("daemonise"), "stay")
	return run, s.member(m)
}

// asRoot and asNobody start lineage on the host.
func (s *shop) asRoot(env []string, args ...string) *stage.Process {
	return s.Start(args, env)
}

func (s *shop) asNobody(env []string, args ...string) *stage.Process {
	return s.StartNobody(env, args...)
}

// inside starts lineage in the daemon's container.
func (s *shop) inside(env []string, args ...string) *stage.Process {
	all := []string{"exec"}
	for _, e := range env {
		all = append(all, "-e", e)
	}
	return stage.Start(s.T, s.docker.Command(append(append(all, name, "/lineage"), args...)...))
}

func (s *shop) cgroup(pid int) string {
	s.T.Helper()
	return stage.Query[api.Why](s.Instance, "why", fmt.Sprint(pid)).Process.Cgroup
}

// TestDaemon: with the documented privileges everything works, and sessions outlive the
// container.
func TestDaemon(t *testing.T) {
	s := newShop(t)
	if !s.serve(s.daemon()) {
		t.Fatal(s.said())
	}
	doctor := s.inside(nil, "doctor").Wait()
	if out := doctor.Out.String(); doctor.Code() != 0 || !strings.Contains(out, "self-check") || strings.Contains(out, "degraded") {
		t.Error(doctor)
	}
	status := s.Status()
	if want := []string{"cap_dac_read_search", "cap_kill", "cap_sys_ptrace"}; !slices.Equal(status.Capabilities, want) || len(status.Degraded) > 0 {
		t.Errorf("capabilities %v, degraded %q", status.Capabilities, status.Degraded)
	}
	if said := s.said(); strings.Contains(said, `"level":"warn"`) || strings.Contains(said, `"level":"error"`) {
		t.Error(said)
	}
	for _, start := range []func([]string, ...string) *stage.Process{s.asRoot, s.asNobody, s.inside} {
		s.traces(start)
	}

	m := stage.NewMarker(t, s.Dir)
	server := s.StartNobody(m.Env(), "run", "--name", "server", "--grace", "0s", "--", s.program("port"), "0")
	port := m.Line("port", 1)[0]
	if p := s.Must("why", ":"+port); !strings.Contains(p.Out.String(), "session server") {
		t.Error(p)
	}
	s.End("server")
	server.Wait()
	m.MustBeGone()

	m = stage.NewMarker(t, s.Dir)
	run, left := s.leaves(m)
	id := s.Session("work").ID
	began := time.Now()
	s.docker.Must("restart", name)
	s.Until("daemon that answers", func() bool { return s.Version() != nil })
	t.Logf("figure: restarted in %.1f s", time.Since(began).Seconds())
	if why := stage.Query[api.Why](s.Instance, "why", fmt.Sprint(left)); why.Session == nil || why.Session.ID != id {
		t.Errorf("after a restart: %+v", why)
	}
	s.Finish(m, run, "work")
}

// TestDaemonWithout removes each privilege in turn. The daemon says what no longer works.
func TestDaemonWithout(t *testing.T) {
	s := newShop(t)
	exits := func(why string) func(*shop) {
		return func(s *shop) {
			said := s.said()
			if code := s.inspect(name, "ExitCode"); code != api.ExitUnsupported || !strings.Contains(said, why) || strings.Count(said, "\n") != 1 {
				s.T.Errorf("exit code %d: %s", code, said)
			}
		}
	}
	for _, c := range []struct {
		name, what, with string // replaced in the command
		exits            func(*shop)
		serves           func(*shop)
	}{
		{name: "SYS_ADMIN", what: " --cap-add SYS_ADMIN", exits: exits("no capability to load tracing programs")},
		{name: "pid", what: " --pid host", exits: exits("not in the initial PID namespace")},
		{name: "SYS_PTRACE", what: " --cap-add SYS_PTRACE", serves: (*shop).withoutPtrace},
		{name: "KILL", what: " daemon", with: " daemon --level 2", serves: (*shop).withoutKill},
		{name: "DAC_READ_SEARCH", what: " --cap-add DAC_READ_SEARCH", serves: (*shop).withoutSearch},
		{name: "SETPCAP", what: " --cap-add SETPCAP", serves: (*shop).withoutSetpcap},
		{name: "SYS_NICE", what: " --cap-add SYS_NICE", serves: (*shop).withoutNice},
		{name: "bpffs", what: " -v /sys/fs/bpf:/sys/fs/bpf", serves: (*shop).withoutBPFFS},
		{name: "cgroupns", what: " --cgroupns host", with: " --cgroupns private", serves: (*shop).withoutCgroups},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			command := s.daemon()
			if c.name == "KILL" {
				command = s.replaced(command, " --cap-add KILL", "")
			}
			command = s.replaced(command, c.what, c.with)
			switch serves := s.serve(command); {
			case serves != (c.exits == nil):
				t.Fatalf("serves: %v: %s", serves, s.said())
			case serves:
				c.serves(s)
			default:
				c.exits(s)
			}
		})
	}

	t.Run("BPF", func(t *testing.T) {
		s := s.in(t)
		p := stage.Start(t, s.docker.Command("run", "--rm", "--network", "none", "--cap-add", "BPF", s.tag, "version")).Wait()
		if p.Code() != 125 || !strings.Contains(p.Err.String(), `unknown capability: "CAP_BPF"`) {
			t.Errorf("docker knows CAP_BPF: put BPF and PERFMON in the place of SYS_ADMIN in docs/CONTAINERS.md: %v", p)
		}
	})
}

func (s *shop) withoutPtrace() {
	s.T.Helper()
	s.degraded("cap_sys_ptrace (executables, environments and open files of other users' processes cannot be read)")
	for _, start := range []func([]string, ...string) *stage.Process{s.asRoot, s.asNobody} {
		s.traces(start)
	}
}

func (s *shop) withoutKill() {
	s.T.Helper()
	s.degraded("cap_kill (processes of other users are not signalled at level 2")
	m := stage.NewMarker(s.T, s.Dir)
	run, left := s.leaves(m)
	id := s.Session("work").ID
	if p := s.Lineage("end", "--yes", "--now", "work"); p.Code() != api.ExitLeft {
		s.T.Error(p)
	}
	r := s.Receipt(id)
	if k := slices.IndexFunc(r.Processes, func(o api.Outcome) bool { return o.PID == left }); r.Verdict != "left" || k < 0 ||
		r.Processes[k].Outcome != "left" || r.Processes[k].Why != "not signalled" {
		s.T.Errorf("receipt %+v", r)
	}
	m.Kill()
	run.Wait()
}

func (s *shop) withoutSearch() {
	s.T.Helper()
	s.degraded("cap_dac_read_search (what processes of other users hold is not known)")
	m := stage.NewMarker(s.T, s.Dir)
	run, left := s.leaves(m)
	if p := s.Must("why", fmt.Sprint(left)); !strings.Contains(p.Out.String(), fmt.Sprintf("not known of what it holds: pid %d: permission denied", left)) {
		s.T.Error(p)
	}
	s.Finish(m, run, "work")
}

func (s *shop) withoutSetpcap() {
	s.T.Helper()
	s.degraded("privileges were not given up")
	s.traces(s.asNobody)
}

func (s *shop) withoutNice() {
	s.T.Helper()
	if said := s.said(); !strings.Contains(said, "in a storm of forks the daemon may be slow") {
		s.T.Error(said)
	}
	s.traces(s.asNobody)
}

func (s *shop) withoutBPFFS() {
	s.T.Helper()
	s.traces(s.asNobody)
	m := stage.NewMarker(s.T, s.Dir)
	run, left := s.leaves(m)
	s.docker.Must("restart", name)
	s.Until("daemon that answers", func() bool { return s.Version() != nil })
	if p := s.Must("ls"); strings.Contains(p.Out.String(), "work") {
		s.T.Error(p)
	}
	if p := s.Must("why", fmt.Sprint(left)); !strings.Contains(p.Out.String(), "in no session") {
		s.T.Error(p)
	}
	m.Kill()
	run.Wait()
}

func (s *shop) withoutCgroups() {
	s.T.Helper()
	m := stage.NewMarker(s.T, s.Dir)
	run, left := s.leaves(m)
	if got := s.cgroup(left); !strings.HasPrefix(got, "/../..") {
		s.T.Errorf("cgroup %s", got)
	}
	s.End("work")
	run.Wait()
}
