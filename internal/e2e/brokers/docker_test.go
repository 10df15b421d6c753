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
	if c := b.Process.Container; c.String() != "lngtest-mine" || len(c.ID) != 64 || c.Image != "lngtest" || c.Runtime != "docker" {
		t.Errorf("%+v", c)
	}
	i.End("work")
	i.Until("end of the container", func() bool { return !alive(b) })
	r := a.receipt()
	if k := slices.IndexFunc(r.Processes, func(o api.Outcome) bool { return o.PID == b.Process.PID }); k < 0 || r.Processes[k].Container.String() != "lngtest-mine" {
		t.Errorf("%+v", r.Processes)
	}

	a = ask(i, run+`-e LINEAGE_TOKEN="$LINEAGE_TOKEN" lngtest /sleep 132`)
	b = a.brokered("attributed", "env")
	is(t, b, "docker", "env", "strong", true)
	i.End("work")
	i.Until("end of the container", func() bool { return !alive(b) })
	a.run.Wait()

	a = ask(i, run+"lngtest /sleep 133")
	b = a.brokered("attributed", "socket")
	is(t, b, "docker", "socket", "weak", false)
	for _, by := range []string{b.Process.Container.Name, b.Process.Container.ID[:12]} {
		if all := stage.Query[api.Sessions](i, "ls", "--container", by).Items; len(all) != 1 || all[0].ID != b.Session {
			t.Errorf("%s: %+v", by, all)
		}
	}
	i.End("work")
	if !alive(b) {
		t.Error("weak evidence ended it")
	}
	i.End(b.Session)
	a.run.Wait()
}
