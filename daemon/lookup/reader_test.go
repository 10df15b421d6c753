//go:build linux

package lookup

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/rs/zerolog"
)

// TestReader: members have the container of their creator until a look meets them, then their own; and again their own
// after they have executed another program. A runtime may write the name later.
func TestReader(t *testing.T) {
	r := registrytest.New(t)
	h := &host{T: t, proc: r.Proc, dir: t.TempDir(), f: NewContainerFinder(r.Proc, zerolog.Nop())}
	h.process(30, 1, "containerd-shim", "/system.slice/docker.service", "host")
	reader := NewContainerReader(registry.Ground{Registry: r.R, Kernel: r.K, Proc: r.Proc}, h.f)
	r.R.Attach(reader.Hooks())
	r.Run()
	r.Ingest()
	look := func() {
		t.Helper()
		r.K.AllRead()
		r.K.Advance(time.Second)
		_, err := r.R.Resync(registry.CauseMember)
		require.NoError(t, err)
	}
	in := func(pid uint32, want string) {
		t.Helper()
		r.K.AllRead()
		var c *lineage.Container
		require.NoError(t, r.R.Read(func(v registry.View) { c = v.Graph().Container(r.K.Proc(pid).Identity) }))
		got := ""
		if c != nil {
			got = c.ID[:2] + " " + c.Name
		}
		require.Equal(t, got, want)
	}
	h.docker(web, "web") // 300
	r.K.Add(300, 1, "node")
	r.Session(300, 1000)
	look()
	in(300, "ab web")
	r.K.Fork(300, 301, "sh") // no look has met it
	in(301, "ab web")
	h.process(301, 300, "sh", "/user.slice", "web") // it is in none
	r.K.Fork(301, 302, "sh")
	look()
	in(301, "")
	in(302, "") // as its creator, for procfs does not show it
	h.process(301, 300, "sh", "/docker/"+db, "db")
	look()
	in(301, "")
	r.K.Exec(301, "/bin/x", "x\x00")
	look()
	in(301, "cd ")
	h.docker(db, "db") // 300 too, which did not exec
	h.process(301, 30, "sh", "/docker/"+db, "db")
	look()
	in(301, "cd db")
	in(300, "ab web")
	was := r.K.Proc(301).Identity
	r.K.Exit(301, 0)
	r.K.AllRead()
	r.K.Add(301, 1, "other") // another process has the PID
	h.process(301, 300, "other", "/docker/"+web, "web")
	reader.read([]member{{Seen: lineage.Seen{ID: was}}})
	r.Update(func(tx registry.Tx) {
		require.Equal(t, tx.Graph().Container(was).Name, "db")
		dead := lineage.ID{PID: 900, Start: 1}
		if reader.sampled(tx.View, &registry.Look{Seen: []lineage.Seen{{ID: dead, Session: 1, Dead: true}, {ID: dead, Session: 1, Zombie: true}}}) != nil {
			t.Error("the dead are read")
		}
	})
}
