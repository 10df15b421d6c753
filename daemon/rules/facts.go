//go:build linux

package rules

import (
	"errors"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// MaxFacts bounds the ancestors that a rule can see.
const MaxFacts = 8

// RootFacts is what is known of a session's root, nil if it is not enough to judge it.
// Of an exited one only the events are known, and of its file only the name in the exec
// event.
func (s *Steward) RootFacts(id tracer.Identity) *policy.Facts {
	f := s.Facts(id.PID, MaxFacts)
	if now, err := s.o.Kernel.Identify(id.PID); err != nil || now != id || f == nil || f.Exe == "" {
		f = s.remembered(id, MaxFacts)
		if f != nil && err == nil && now == id { // its link cannot be read, but the kernel can compare
			f.Runs = s.runs(id.PID, f.Exe)
		}
	}
	if f != nil && f.Parent == nil {
		if n := s.node(id); n != nil {
			f.Parent = s.remembered(n.Creator, MaxFacts-1)
		}
	}
	return f
}

// node is what the graph has of a process.
func (s *Steward) node(id lineage.ID) *lineage.Node {
	n, _ := registry.Ask(s.o.Registry, func(v registry.View) *lineage.Node { // nil if the daemon is stopping
		if n, ok := v.Graph().Node(id); ok {
			return &n
		}
		return nil
	})
	return n
}

// remembered is what the graph knows of a process and its creators.
func (s *Steward) remembered(id lineage.ID, depth int) *policy.Facts {
	if id.PID <= 1 || depth == 0 {
		return nil
	}
	n := s.node(id)
	if n == nil {
		return nil
	}
	uid := n.UID
	f := &policy.Facts{Comm: n.Comm.String(), Argv: n.Argv, UID: &uid}
	if strings.HasPrefix(n.Exe, "/") {
		f.Exe = n.Exe
	}
	f.Parent = s.remembered(n.Creator, depth-1)
	return f
}

// runs returns what the kernel says of the file that a process executes; it is asked at most once.
func (s *Steward) runs(pid uint32, exe string) func() (file, initial bool) {
	return sync.OnceValues(func() (file, initial bool) {
		r, err := s.o.Kernel.Runs(tracer.Identity{PID: pid}, exe)
		if err != nil && !errors.Is(err, tracer.ErrNotFound) {
			s.o.Log.Warn().Err(err).Uint32(system.KeyPID, pid).Msg("no rule with exe matches: file not compared")
		}
		return err == nil && r.File, err == nil && !r.Inside
	})
}

// Facts is what procfs shows of a process and its ancestors below PID 1. They are for
// rules about outsiders, whose creators are unknown: the parents are used instead.
func (s *Steward) Facts(pid uint32, depth int) *policy.Facts {
	stat, err := s.o.Proc.Stat(pid)
	if err != nil || depth == 0 {
		return nil
	}
	f := &policy.Facts{Exe: s.o.Proc.Link(pid, "exe"), Cgroup: s.o.Proc.Cgroup(pid)}
	f.Runs = s.runs(pid, f.Exe)
	f.Argv, _ = lookup.ArgvOf(s.o.Proc, pid)
	if st, err := s.o.Proc.Status(pid); err == nil {
		f.Comm, f.UID = st.Name, &st.UIDs[1]
		if u, err := user.LookupId(strconv.FormatUint(uint64(st.UIDs[1]), 10)); err == nil {
			f.User = u.Username
		}
	}
	if stat.Parent > 1 {
		f.Parent = s.Facts(stat.Parent, depth-1)
	}
	return f
}
