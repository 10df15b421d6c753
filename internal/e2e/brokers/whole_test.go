//go:build linux

package brokers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestWholeContainer: a container is one session with the commands that are put into it, also if it ran before the daemon, and ends
// as one. Other containers are not touched.
func TestWholeContainer(t *testing.T) {
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) { testWholeContainer(t, newHouse(t, runtime)) })
	}
}

func testWholeContainer(t *testing.T, h *house) {
	h.start("lngtest-whole1")
	h.daemon.Stop()
	h.start("lngtest-whole2")
	h.daemon = h.Daemon("--policy", h.Dir+"/policy.yaml")
	for i, name := range []string{"lngtest-whole1", "lngtest-whole2"} {
		main, err := strconv.Atoi(strings.TrimSpace(h.Docker.Must("inspect", "-f", "{{.State.Pid}}", name)))
		if err != nil {
			t.Fatal(err)
		}
		var s api.Session
		h.Until("the session of "+name, func() bool {
			all := stage.Query[api.Sessions](h.Instance, "ls", "--container", name).Items
			if len(all) == 1 && all[0].ContainerRule == "lngtest-whole" {
				s = all[0]
			}
			return s.ID != ""
		})
		if s.Root.PID != main || s.Container.Name != name {
			t.Errorf("%+v, and docker has main process %d", s, main)
		}
		client := h.exec(name, "sleep 125 & (setsid sleep 126 &); echo done >&9; exec sleep 127")
		h.left.Line("done", i+1)
		h.Until("what the command runs, in the session", func() bool {
			return !slices.ContainsFunc(h.left.Holders(), func(pid int) bool {
				in := stage.Query[api.Why](h.Instance, "why", fmt.Sprint(pid)).Session
				return in == nil || in.ID != s.ID
			})
		})
		h.End(s.ID)
		h.left.Gone()
		client.Wait()
		h.Until("end of the container", func() bool {
			return strings.TrimSpace(h.Docker.Must("inspect", "-f", "{{.State.Running}}", name)) == "false"
		})
		if r := h.Receipt(s.ID); r.Verdict != api.VerdictClean {
			t.Errorf("%+v", r)
		}
		h.untouched()
	}
}
