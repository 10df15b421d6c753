//go:build linux

package lookup

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
)

// maxEnriched bounds how many processes of one reply are looked up in procfs.
const maxEnriched = 512

// Enrich adds what only procfs knows of live processes. It is for display: the identity
// is confirmed after the reads, otherwise what was read is dropped.
//
// If the kernel reports no reparentings, the graph learns a new parent from the next
// look; here it is read at once.
func (f *Finder) Enrich(c access.Caller, ps ...*api.Process) {
	parents := make(map[uint32]*api.Ref)
	for i, p := range ps {
		if i == maxEnriched {
			return
		}
		if p.State == api.StateExited {
			continue
		}
		pid := uint32(p.PID)
		stat, st, err := f.read(pid)
		if p.State == api.StateZombie && !waits(stat.State, err) {
			p.State = api.StateExited
			continue
		}
		if err != nil {
			continue
		}
		full := *p
		if p.Parent == nil || uint32(p.Parent.PID) != stat.Parent {
			full.Parent = f.parentRef(stat.Parent, parents)
		}
		full.Task, full.NSPID, full.Cgroup = string(rune(stat.State)), int(st.NSPID), f.o.Proc.Cgroup(pid)
		full.Container = document.Container(f.o.Containers.Of(pid, nil))
		if stat.State != 'Z' {
			full.PidfdInode = f.o.Proc.Inode(pid)
		}
		sight := c.Sees(st.UIDs[1])
		if sight == access.Whole {
			full.Cwd = f.o.Proc.Link(pid, "cwd")
		}
		if exe := f.o.Proc.Link(pid, "exe"); exe != "" {
			full.Exe = exe
		}
		if full.Argv == nil && sight != access.Nothing {
			argv, truncated := ArgvOf(f.o.Proc, pid)
			full.Argv, full.ArgvTruncated = c.Argv(st.UIDs[1], argv), truncated
		}
		if id, err := f.o.Kernel.Identify(pid); err == nil && document.Ref(id) == p.Ref {
			*p = full
		}
	}
}

// waits reports whether a dead process waits for its parent, according to its stat. The
// events alone would call it a zombie while it is torn down, and for up to an RCU grace
// period, some 50 ms, after it was reaped.
func waits(task byte, err error) bool {
	return !isGone(err) && (err != nil || task == 'Z')
}

// parentRef names a present parent, without its start if that is unknown: some kernels
// hide PID 1 from iterators.
func (f *Finder) parentRef(pid uint32, seen map[uint32]*api.Ref) *api.Ref {
	if ref, ok := seen[pid]; ok || pid == 0 {
		return ref
	}
	ref := api.Ref{PID: int(pid)}
	if id, err := f.o.Kernel.Identify(pid); err == nil {
		ref = document.Ref(id)
	}
	seen[pid] = &ref
	return &ref
}
