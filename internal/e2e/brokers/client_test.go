//go:build linux

package brokers

import (
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

func (h *house) root(name string) (pid int) {
	h.Instance.T.Helper()
	return h.Session(name).Root.PID
}

// asked waits until a session's only request for a command is attributed, and it is known that its end ends that.
func (h *house) asked(name string) (b api.Delegated, s api.Session) {
	h.Instance.T.Helper()
	defer func() {
		if h.Instance.T.Failed() {
			h.Instance.T.Logf("session %+v", s)
		}
	}()
	h.Until("attributed command", func() bool {
		all := stage.Query[api.Sessions](h.Instance, "ls").Items
		i := slices.IndexFunc(all, func(s api.Session) bool { return s.Name == name })
		if i < 0 {
			return false
		}
		s = all[i]
		if len(s.Delegated) != 1 {
			return false
		}
		b = s.Delegated[0]
		return b.State == "attributed" && b.Ends
	})
	return b, s
}

// TestClient: a client that a signal or its session's end ends, whatever its exit code, ends its command, with all that this started.
func TestClient(t *testing.T) {
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) { testClient(t, newHouse(t, runtime)) })
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
				b, by := h.asked("asks")
				is(t, b, "docker", "container", "strong", true)
				s := h.Record(b.Session)
				if s.ContainerRule != rule || s.DelegatedBy != by.ID || s.Container.String() != box {
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

// TestClientWithoutDaemon: at level 4 a client that is killed while no daemon runs ends its command, and nothing else; the next
// daemon reports it.
func TestClientWithoutDaemon(t *testing.T) {
	h := newHouse(t, "runc")
	h.start("lngtest-plain") // no rule is for it
	for _, box := range []string{"lngtest-box", "lngtest-plain"} {
		client := h.run("asks", h.command(box, leftovers[0].script+"\nsleep 99")...)
		h.ups(client)
		b, _ := h.asked("asks")
		is(t, b, "docker", "container", "strong", true)
		root, level := h.root("asks"), h.Status().Level
		h.daemon.Stop()
		require.NoError(t, syscall.Kill(client.Process.Pid, syscall.SIGSTOP)) // it would start a daemon
		require.NoError(t, syscall.Kill(root, syscall.SIGKILL))
		if level == 4 {
			h.left.Gone()
			h.untouched()
		}
		h.daemon = h.Daemon("--policy", h.Policy(execRules))
		h.left.Gone()
		require.NoError(t, syscall.Kill(client.Process.Pid, syscall.SIGCONT))
		client.Wait()
		if r := h.Receipt(b.Session); r.Verdict != api.VerdictClean || r.EndReason != "owner_exit" {
			t.Errorf("in %s: %+v", box, r)
		}
	}
	h.untouched()
}
