//go:build linux

package lookup

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// shifting is a kernel in which a PID is reused: at each question the next process has
// it.
type shifting struct {
	registry.Kernel
	next []tracer.Identity
}

func (k *shifting) Identify(uint32) (tracer.Identity, error) {
	now := k.next[0]
	k.next = k.next[min(1, len(k.next)-1):]
	return now, nil
}

// What procfs said of a PID is not shown if the PID was reused meanwhile.
func TestPIDChangesHands(t *testing.T) {
	proc := procfs.FS(t.TempDir())
	procfstest.Files(t, proc.Path(300, ""), map[string]string{
		"stat":   "300 (lngtest-x) S 20 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0",
		"status": fmt.Sprintf("Name:\tlngtest-x\nTgid:\t300\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nNSpid:\t300\n", 1000),
		"cgroup": "0::/lngtest\n",
	})
	k := kerneltest.New()
	k.Add(300, 20, "lngtest-x")
	is, was := k.Proc(300).Identity, k.Proc(300).Identity
	was.Start--
	clock := registry.Clock{Clock: func() time.Time { return time.Unix(0, 0) }}
	over := func(next ...tracer.Identity) *Finder {
		return New(Options{Ground: registry.Ground{Kernel: &shifting{k, next}, Proc: proc, Clock: clock}, Containers: NewContainerFinder(proc, zerolog.Nop())})
	}
	for name, shown := range map[string]func(who ...tracer.Identity) bool{
		"root": func(who ...tracer.Identity) bool {
			p, err := over(who...).Running(api.Ref{PID: 300})
			return err == nil && p.ID == who[0]
		},
		"outsider": func(who ...tracer.Identity) bool {
			p, _, err := over(who[1]).outsider(who[0])
			return err == nil && p.Comm != ""
		},
		"shown": func(who ...tracer.Identity) bool {
			p := api.Process{Ref: document.Ref(who[0])}
			over(who[1]).Enrich(access.Caller{}, &p)
			return p.Cgroup != ""
		},
		"reaper": func(who ...tracer.Identity) bool { return over(who[1]).Reaper(document.Ref(who[0])).Comm != "" },
	} {
		if !shown(is, is) {
			t.Errorf("%s: nothing of the process that is there still", name)
		}
		if shown(was, is) {
			t.Errorf("%s: of another process", name)
		}
	}
}

// TestInode: a live process has the inode of its pidfds where the kernel has one for each, and no other process has it.
func TestInode(t *testing.T) {
	k := kerneltest.New()
	k.Add(uint32(os.Getpid()), 1, "lngtest-x")
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	var of unix.Statfs_t
	var st unix.Stat_t
	require.NoError(t, errors.Join(unix.Fstatfs(fd, &of), unix.Fstat(fd, &st)))
	if of.Type != unix.PID_FS_MAGIC { // before 6.9
		st.Ino = 0
	}
	is := api.Process{Ref: document.Ref(k.Proc(uint32(os.Getpid())).Identity)}
	was := is
	was.StartNS--
	for proc, want := range map[procfs.FS][2]uint64{"/proc": {st.Ino, 0}, procfs.FS(t.TempDir()): {}} {
		f := New(Options{Ground: registry.Ground{Kernel: k, Proc: proc}, Containers: NewContainerFinder(proc, zerolog.Nop())})
		live, other := is, was
		f.Enrich(access.Caller{}, &live, &other)
		require.Equal(t, [2]uint64{live.PidfdInode, other.PidfdInode}, want)
	}
	require.Equal(t, procfs.FS("/proc").Inode(1<<30), 0)
}

// A process that exits while it is read is not found, and the daemon has not failed.
func TestRunningExits(t *testing.T) {
	k := kerneltest.New()
	k.Add(300, 20, "lngtest-x")
	proc := procfs.FS(t.TempDir())
	f := New(Options{Ground: registry.Ground{Kernel: k, Proc: proc}, Containers: NewContainerFinder(proc, zerolog.Nop())})
	refused := func() {
		t.Helper()
		var e *api.Error
		if _, err := f.Running(api.Ref{PID: 300}); !errors.As(err, &e) || e.Code != api.CodeNotFound {
			t.Error(err)
		}
	}
	refused()
	procfstest.Files(t, proc.Path(300, ""), map[string]string{"stat": "300 (lngtest-x) S 20 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0"})
	refused()
}
