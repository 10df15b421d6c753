//go:build linux

package attribution

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// What procfs said of a PID is dropped if the PID was reused meanwhile.
func TestPIDChangesHands(t *testing.T) {
	proc := procfs.FS(t.TempDir())
	procfstest.Files(t, proc.Path(300, ""), map[string]string{
		"stat":    "300 (x) S 20 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0",
		"cgroup":  "0::/lngtest\n",
		"environ": "BUILD_ID=7\x00",
	})
	is, was := tracer.Identity{PID: 300, Start: 1}, tracer.Identity{PID: 300, Start: 2}
	b := &Attribution{o: Options{Options: rules.Options{Ground: registry.Ground{Kernel: seen{kerneltest.New()}, Proc: proc}}}}
	for name, shown := range map[string]func(id tracer.Identity) bool{
		"candidate": func(id tracer.Identity) bool {
			_, ok := b.read(&tracer.Process{Identity: id})
			return ok
		},
		"cookies": func(id tracer.Identity) bool { return len(b.cookies(id)) > 0 },
	} {
		if !shown(is) {
			t.Errorf("%s: nothing of who is there still", name)
		}
		if shown(was) {
			t.Errorf("%s: of another process", name)
		}
	}
}

// Files that a process chooses are evidence; a server of such files that does not answer stops nothing.
func TestDeadFileServer(t *testing.T) {
	for name, c := range map[string]struct {
		dir    string // where the server is mounted
		silent uint32
		look   func(a *Attribution)
	}{
		"standard input of a job": {"mounted", procfstest.Open, func(a *Attribution) {
			a.job(&tracer.Process{Identity: tracer.Identity{PID: 300}, Looks: lineage.Looks{UID: uint32(os.Geteuid())}})
		}},
		"units of a user": {"run/user/1000/systemd/transient", procfstest.Lookup, func(a *Attribution) {
			a.made(lookup.BrokerPlace{User: 1000, Unit: "lngtest.service"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits until the server is given up
			files := t.TempDir()
			a := &Attribution{o: Options{Options: rules.Options{Ground: registry.Ground{Proc: procfs.FS(filepath.Join(files, "proc"))}}, Files: files}}
			dir := filepath.Join(files, c.dir)
			for _, d := range []string{dir, a.o.Proc.Path(300, "fd")} {
				require.NoError(t, os.MkdirAll(d, 0o700))
			}
			require.NoError(t, os.Symlink(filepath.Join(dir, "file"), a.o.Proc.Path(300, "fd/0")))
			server := procfstest.Serve(t, dir, c.silent)
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.look(a)
			}()
			select {
			case <-done:
			case <-time.After(require.Slowed(10 * time.Second)):
				t.Fatal("it hangs")
			}
			select {
			case <-server.Asked:
			default:
				t.Error("the server was not asked")
			}
		})
	}
}
