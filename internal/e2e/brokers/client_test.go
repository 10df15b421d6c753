//go:build linux

package brokers

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// command is the command line of a client that has a container run a script, which holds the marker.
func (h *house) command(container, script string) []string {
	return append(slices.Clone(h.Docker.Client), "exec", container, "/bin/sh", "-c", "exec 9>"+h.left.Path+"; echo up >&9; "+script)
}

// run starts a command as the root of a session.
func (h *house) run(name string, command ...string) *stage.Process {
	return h.Start(append([]string{"run", "--name", name, "--grace", "0s", "--"}, command...), nil)
}

// ups waits until the commands of the clients are up.
func (h *house) ups(clients ...*stage.Process) {
	h.Instance.T.Helper()
	h.up += len(clients)
	h.left.Wait("command", func(bool) bool {
		up := len(h.left.Lines("up")) == h.up
		for _, c := range clients {
			if !up && c.Exited() {
				h.Instance.T.Fatal(c)
			}
		}
		return up
	})
}

// root is the root of the session of that name.
func (h *house) root(name string) (pid int) {
	h.Instance.T.Helper()
	return h.Session(name).Root.PID
}

// asked waits for what a session's only request for a command came to. If judged, it waits too for what its end is to do to that:
// whose a command is is known before.
func (h *house) asked(name, state string, judged bool) (b api.Brokered, s api.Session) {
	h.Instance.T.Helper()
	defer func() {
		if h.Instance.T.Failed() {
			h.Instance.T.Logf("session %+v", s)
		}
	}()
	h.Until(state+" command", func() bool {
		all := stage.Query[api.Sessions](h.Instance, "ls").Items
		i := slices.IndexFunc(all, func(s api.Session) bool { return s.Name == name })
		if i < 0 {
			return false
		}
		s = all[i]
		if len(s.Brokered) != 1 {
			return false
		}
		b = s.Brokered[0]
		return b.State == state && (b.Ends || b.Observed || !judged)
	})
	return b, s
}

// TestClient: a client that a signal or its session's end ends, whatever its exit code, ends its command, with all that this started.
func TestClient(t *testing.T) {
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) { testClient(t, newHouse(t, "enforce", runtime)) })
	}
}

func testClient(t *testing.T, h *house) {
	h.start("lngtest-plain") // no rule is for it
	signal := func(s syscall.Signal) func() {
		return func() { require.NoError(t, syscall.Kill(h.root("asks"), s)) }
	}
	ways := []struct {
		name string
		run  []string // its flags, and what runs the client
		end  func()
	}{
		{"SIGTERM", []string{"--"}, signal(syscall.SIGTERM)},
		{"SIGINT", []string{"--"}, signal(syscall.SIGINT)},
		{"SIGHUP", []string{"--"}, signal(syscall.SIGHUP)},
		{"SIGKILL", []string{"--"}, signal(syscall.SIGKILL)},
		{"timeout", []string{"--", "timeout", "600"}, signal(syscall.SIGTERM)}, // as at its time
		{"end", []string{"--"}, func() { h.End("asks") }},
		{"lifetime", []string{"--max-lifetime", "6s", "--"}, func() {}},
	}
	for round := range tracertest.FromEnv(t, "LNGTEST_ROUNDS", 1) {
		for i, way := range ways {
			tree := leftovers[(round+i)%len(leftovers)]
			for box, rule := range map[string]string{"lngtest-box": "lngtest-execs", "lngtest-plain": ""} {
				client := h.Start(slices.Concat([]string{"run", "--name", "asks", "--grace", "5s"}, way.run, h.command(box, tree.script+"\nsleep 99")), nil)
				h.ups(client)
				b, by := h.asked("asks", "attributed", true)
				is(t, b, "docker", "container", "strong", true)
				s := h.Record(b.Session)
				if s.ContainerRule != rule || s.BrokeredBy != by.ID || s.Container.String() != box {
					t.Errorf("%s, %s: %+v", tree.name, way.name, s)
				}
				way.end()
				client.Wait()
				h.left.Wait("end of what a client asked for: "+tree.name+", "+way.name+", in "+box, func(alive bool) bool { return !alive })
				if r := h.Receipt(b.Session); r.Verdict != api.VerdictClean || r.EndReason != "owner_exit" && r.EndReason != "ancestor" {
					t.Errorf("%s, %s, in %s: %+v", tree.name, way.name, box, r)
				}
			}
		}
	}
	h.untouched()
}

// TestClientObserved: in observe neither a client's end nor that of its session ends a command, and the receipt says that
// it would have.
func TestClientObserved(t *testing.T) {
	h := newHouse(t, "observe", "runc")
	h.start("lngtest-plain") // no rule is for it
	for _, box := range []string{"lngtest-box", "lngtest-plain"} {
		client := h.run("asks", h.command(box, "sleep 125 & sleep 126; :")...)
		h.ups(client)
		b, _ := h.asked("asks", "attributed", true)
		if b.Ends || !b.Observed {
			t.Errorf("in %s: %+v", box, b)
		}
		require.NoError(t, syscall.Kill(h.root("asks"), syscall.SIGKILL))
		client.Wait()
		h.Until("what would have ended the command", func() bool { return slices.Contains(h.SoFar(b.Session).WouldEnd, "owner_exit") })
		if s := h.Record(b.Session); s.State != api.StateActive || s.Live != 3 || !h.left.Drain() {
			t.Errorf("in %s: %+v", box, s)
		}
		h.End(b.Session)
		if r := h.Receipt(b.Session); r.EndReason != "end" || !slices.Contains(r.WouldEnd, "owner_exit") {
			t.Errorf("in %s: %+v", box, r)
		}
		h.left.Wait("end of the command", func(alive bool) bool { return !alive })
	}
	h.untouched()
}

// TestBriefClient: the client that is killed ends a command that is not recorded yet, because it is younger than brief.
func TestBriefClient(t *testing.T) {
	h := newHouse(t, "enforce", "runc")
	h.start("lngtest-brief", "--label", "lngtest.kind=brief", "-e", "LNGTEST=/a/b")
	client := h.run("asks", h.command("lngtest-brief", "sleep 98 & sleep 99; :")...)
	h.ups(client)
	b, _ := h.asked("asks", "attributed", false)
	require.NoError(t, syscall.Kill(h.root("asks"), syscall.SIGKILL))
	client.Wait()
	h.left.Wait("end of the command", func(alive bool) bool { return !alive })
	if r := h.Receipt(b.Session); r.EndReason != "owner_exit" || r.Name != "lngtest-briefs" {
		t.Errorf("%+v", r)
	}
	h.untouched()
}

// TestClientWithoutDaemon: at level 4 a client that is killed while no daemon runs ends its command, and nothing else; the next
// daemon reports it.
func TestClientWithoutDaemon(t *testing.T) {
	h := newHouse(t, "enforce", "runc")
	h.start("lngtest-plain") // no rule is for it
	for _, box := range []string{"lngtest-box", "lngtest-plain"} {
		client := h.run("asks", h.command(box, leftovers[0].script+"\nsleep 99")...)
		h.ups(client)
		b, _ := h.asked("asks", "attributed", true)
		is(t, b, "docker", "container", "strong", true)
		root, level := h.root("asks"), h.Status().Level
		h.daemon.Stop()
		require.NoError(t, syscall.Kill(client.Process.Pid, syscall.SIGSTOP)) // it would start a daemon
		require.NoError(t, syscall.Kill(root, syscall.SIGKILL))
		if level == 4 {
			h.left.Gone()
			h.untouched()
		}
		h.daemon = h.Daemon("--policy", h.Policy("mode: enforce"+execRules))
		h.left.Gone()
		require.NoError(t, syscall.Kill(client.Process.Pid, syscall.SIGCONT))
		client.Wait()
		if r := h.Receipt(b.Session); r.Verdict != api.VerdictClean || r.EndReason != "owner_exit" {
			t.Errorf("in %s: %+v", box, r)
		}
	}
	h.untouched()
}

// TestForgedClient: the end of a program with the same command line which never asked an engine does not reach a command.
func TestForgedClient(t *testing.T) {
	h := newHouse(t, "enforce", "runc")
	script := h.command("lngtest-box", "sleep 99")

	fake := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(fake, "exec"), []byte("sleep 300\n"), 0o600))
	shell, err := os.ReadFile("/bin/sh")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(fake, "docker"), shell, 0o700))
	forged := h.run("forged", "sh", "-c", "cd "+fake+`; exec ./docker "$@"`, "-", "exec", script[len(script)-4], "/bin/sh", "-c", script[len(script)-1])
	h.asked("forged", "pending", false)
	real := stage.Start(t, h.Docker.Command(script[len(h.Docker.Client):]...))
	h.ups(real)
	h.Until("session of a command", func() bool { return len(h.opened("lngtest-execs")) == 1 })
	s := h.opened("lngtest-execs")[0]
	if s.BrokeredBy != "" {
		t.Errorf("it has a client: %+v", s)
	}
	require.NoError(t, syscall.Kill(h.root("forged"), syscall.SIGKILL))
	forged.Wait()
	h.End(s.ID) // it lived
	real.Wait()
	h.left.Gone()
	h.untouched()
}
