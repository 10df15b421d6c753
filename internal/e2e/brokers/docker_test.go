//go:build linux

package brokers

import (
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestDocker(t *testing.T) {
	i := policed(t, "end: strong")
	docker := i.Docker()
	docker.Import("lngtest", map[string]string{"sleep": "/bin/busybox"})
	run := strings.Join(docker.Client, " ") + " run -d --network none "

	a := ask(i, run+"--name lngtest-mine lngtest /sleep 131")
	b := a.brokered("attributed", "container")
	is(t, b, "docker", "container", "strong", true)
	i.End("work")
	i.Until("end of the container", func() bool { return !alive(b) })
	a.run.Wait()

	a = ask(i, run+`-e LINEAGE_TOKEN="$LINEAGE_TOKEN" lngtest /sleep 132`)
	b = a.brokered("attributed", "env")
	is(t, b, "docker", "env", "strong", true)
	i.End("work")
	i.Until("end of the container", func() bool { return !alive(b) })
	a.run.Wait()

	a = ask(i, run+"lngtest /sleep 133")
	b = a.brokered("attributed", "socket")
	is(t, b, "docker", "socket", "weak", false)
	i.End("work")
	if !alive(b) {
		t.Error("weak evidence ended it")
	}
	i.End(b.Session)
	a.run.Wait()

	// Two at once: each belongs to its own request.
	a = ask(i, run+"--name lngtest-first lngtest /sleep 134\n"+run+"lngtest /sleep 135")
	var second api.Brokered
	i.Until("word of both containers", func() bool {
		b, second = api.Brokered{}, api.Brokered{}
		for _, s := range stage.Query[api.Sessions](i, "ls").Items {
			for _, x := range s.Brokered {
				switch {
				case s.Name != "work" || x.Process == nil:
				case x.Process.Container.String() == "lngtest-first":
					b = x
				default:
					second = x
				}
			}
		}
		return b.Process != nil && second.Process != nil
	})
	is(t, b, "docker", "container", "strong", true)
	is(t, second, "docker", "socket", "weak", false)
	if asked := strings.Join(second.Asked.Argv, " "); strings.Contains(asked, "--name") || second.Process.Container == nil {
		t.Errorf("container %q was asked for by %s", second.Process.Container, asked)
	}
	if c := b.Process.Container; len(c.ID) != 64 || c.Image != "lngtest" || c.Runtime != "docker" {
		t.Errorf("%+v", c)
	}
	for _, by := range []string{second.Process.Container.Name, second.Process.Container.ID[:12]} {
		if all := stage.Query[api.Sessions](i, "ls", "--container", by).Items; len(all) != 1 || all[0].ID != second.Session || all[0].Container.Name != second.Process.Container.Name {
			t.Errorf("%s: %+v", by, all)
		}
	}
	i.End("work")
	i.End(second.Session)
	r := a.receipt()
	if k := slices.IndexFunc(r.Processes, func(o api.Outcome) bool { return o.PID == b.Process.PID }); k < 0 || r.Processes[k].Container.String() != "lngtest-first" {
		t.Errorf("%+v", r.Processes)
	}
}
