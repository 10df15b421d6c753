//go:build linux

package rules

import (
	"cmp"
	"errors"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"github.com/lineage-ebpf/lineage/daemon/access"
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
		if n, ok := s.node(id); ok {
			f.Parent = s.remembered(n.Creator, MaxFacts-1)
		}
	}
	return f
}

func (s *Steward) node(id lineage.ID) (n lineage.Node, ok bool) {
	err := s.o.Registry.Read(func(v registry.View) { n, ok = v.Graph().Node(id) })
	return n, ok && err == nil // else the daemon is stopping
}

// remembered is what the graph knows of a process and its creators.
func (s *Steward) remembered(id lineage.ID, depth int) *policy.Facts {
	if id.PID <= 1 || depth == 0 {
		return nil
	}
	n, ok := s.node(id)
	if !ok {
		return nil
	}
	f := &policy.Facts{Comm: n.Comm.String(), Argv: n.Argv, UID: new(n.UID)}
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
			s.o.Log.Warn().Err(err).Uint32(system.KeyPID, pid).
				Msg("no rule with exe matches: file not compared")
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

// Share moves a server of several sessions to one of its own: by a rule or, if that is "", on evidence.
func (s *Steward) Share(from tracer.SessionInfo, id tracer.Identity, rule, why string) {
	spec := tracer.SessionSpec{Root: id, UID: from.UID, Grace: from.Grace, KeptFrom: from.ID}
	info, err := s.handOver(spec, []tracer.Identity{id}, func(v registry.View, x *registry.Session) {
		s.noteShared(v, x, rule, from.ID)
	})
	log := s.o.Log.With().Str(system.KeyRule, rule).Uint32(system.KeyPID, id.PID).Logger()
	if err == nil {
		log.Info().Str(system.KeySession, info.ID.String()).Msg("shared server moved out of its session")
		s.Record(access.Keep.String(), access.AuditDone, why, info.ID, id)
	} else if !errors.Is(err, tracer.ErrNotFound) {
		log.Error().Err(err).Msg("shared server not moved out of its session")
	}
}

func (s *Steward) noteShared(v registry.View, x *registry.Session, rule string, from tracer.SessionID) {
	its := s.of(x.ID())
	its.kept = &Kept{Reason: "a server of several sessions", From: from, Rule: rule}
	its.shared = cmp.Or(rule, "codex") // no other one is found by evidence
	v.Save(x)
	v.Changed(x.ID())
}

// shareAgain finds the rules of kept sessions without a remembered reason and without
// an end: a killed daemon may not have written it. Without a rule, too, they end with the last session.
func (s *Steward) shareAgain(p *policy.Policy) {
	lost, err := registry.Ask(s.o.Registry, func(v registry.View) (lost []tracer.SessionInfo) {
		for x := range v.Sessions() {
			if x.Info().Kept && x.Info().Expires == 0 && s.of(x.ID()).kept == nil && !x.Closed() {
				lost = append(lost, x.Info())
			}
		}
		return lost
	})
	if err != nil {
		return
	}
	for _, info := range lost {
		name := ""
		if rule := p.SharedServer(s.RootFacts(info.Root)); rule != nil {
			name = rule.Name
		}
		s.o.Registry.Do(func(t registry.Tx) {
			if x := t.Session(info.ID); x != nil && s.of(info.ID).kept == nil {
				s.noteShared(t.View, x, name, 0)
			}
		})
	}
}
