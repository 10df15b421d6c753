//go:build linux

package rules

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Rules for containers. The kernel opens a session for every process that is put into a PID
// namespace from outside, and for every main process of one, and here it is judged as an agent's is: by the
// container, which is read from the process, or from what it has left. A session that is empty before it was
// judged leaves no record.

// joins is why the kernel looks for commands in containers, and for containers.
type joins struct {
	mu            sync.Mutex
	ruled, wanted bool // commands
	whole         bool // containers
}

func (j *joins) set(k registry.Kernel, change func(*joins)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(j)
	k.SetJoins(j.ruled || j.wanted, j.whole)
}

// The container of a session that is still unknown is looked for again, after askAgain, twice that and so
// on: the runtime may still be putting the process in, or processes may exit while they are read.
const (
	askAgain = 50 * time.Millisecond
	askTimes = 7 // after that the session is dissolved
)

// FindAsker finds the session of the member that certainly asked for a command, 0: not known, and whether its client was
// interrupted meanwhile; ready is false if a later answer may be another one.
type FindAsker func(tracer.SessionInfo, *lineage.Container) (asker tracer.SessionID,
	interrupted, ready bool)

// InContainer reports whether a session's root was put into a container, or is its main process.
func InContainer(info tracer.SessionInfo) bool {
	return info.Joined || info.Rule == policy.ContainerRule
}

func EndsWithClient(p *policy.Policy, command tracer.SessionInfo) bool {
	if command.Rule == policy.ContainerRule {
		return p.EndsWithClient(command.Name)
	}
	return command.For != 0 && p.Brokers.End != "none"
}

// joined is a session to be judged whose root was put into a container, or is its main process, and which no agent rule
// wants.
type joined struct {
	by   *Steward
	info tracer.SessionInfo
}

func (j joined) judge(p *policy.Policy, find FindAsker) {
	in, rootLives, err := j.container()
	main := in.Main == j.info.Root.PID
	asker, interrupted, ready := tracer.SessionID(0), false, main || err != nil && final(err, rootLives)
	if err == nil && !main {
		asker, interrupted, ready = find(j.info, in.Container)
		defer j.by.Arm()
	}
	if n := j.by.tries[j.info.ID]; !ready && n < askTimes {
		j.by.tries[j.info.ID] = n + 1
		j.by.judgeLater(j.info.ID, askAgain<<n)
		return
	}
	delete(j.by.tries, j.info.ID)
	if err != nil {
		if j.letGo(err.Error()) && !final(err, rootLives) { // others may be many, such as sandboxes that are in no container
			j.by.Record("exec", access.AuditDone, "command in a container released, no rule applied: "+err.Error(),
				j.info.ID, j.info.Root)
		}
		return
	}
	age := time.Duration(j.by.o.Clock.Boottime() - j.info.Created)
	rule := ruleFor(p, in)
	switch {
	case rule == nil && asker != 0:
		j.workFor(p, asker, in.Container)
	case rule != nil && rule.Whole() && !main:
		j.enter(in)
	case rule == nil || !rule.Opens() || main != rule.Whole():
		j.letGo("no rule wants it")
	case rootLives && age < rule.Brief.Std() && (!interrupted || !p.EndsWithClient(rule.Name)):
		j.by.judgeLater(j.info.ID, rule.Brief.Std()-age)
	case j.by.openFor(p, j.info, policy.ContainerRule, rule.Name):
		// Of a root that has exited by now nothing else tells it.
		j.by.o.Registry.Do(func(t registry.Tx) { t.Contain(j.info.Root, in.Container) })
		how := "put into container"
		if main {
			how = "main process of container"
		}
		j.by.Record("exec", access.AuditDone, fmt.Sprintf("rule %s (%s): %s %s", rule.Name,
			p.Origin(rule), how, in.Container.ID), j.info.ID, j.info.Root)
	}
}

// ruleFor returns the rule for a container, nil if none matches. None is for a pod's sandbox.
func ruleFor(p *policy.Policy, in lookup.FoundContainer) *policy.Container {
	c := in.Container
	if in.Sandbox() {
		return nil
	}
	return p.Container(policy.Room{
		Runtime: c.Runtime, Container: c.Name, Image: c.Image, Pod: c.Pod, Namespace: c.Namespace,
		Env: in.Env, Labels: in.Labels,
	})
}

// workFor makes the session one that holds the work of another session, whose member asked for the command.
func (j joined) workFor(p *policy.Policy, asker tracer.SessionID, in *lineage.Container) {
	// The kernel may have forgotten it: then the command is to end at once.
	of, err := registry.Ask(j.by.o.Registry,
		func(v registry.View) tracer.SessionInfo { return v.Session(asker).Info() })
	if err != nil || of.ID == 0 || !slices.Contains(p.Brokers.Adopt, tracer.SourceContainer.String()) {
		j.letGo("no rule wants it")
		return
	}
	if err := j.by.o.Kernel.SetTerms(j.info.ID, tracer.SessionSpec{Grace: of.Grace,
		KeepOnRootExit: true, For: asker}); err != nil {
		return // it is over
	}
	j.by.reread(j.info.ID)
	j.by.o.Registry.Do(func(t registry.Tx) { t.Contain(j.info.Root, in) })
	j.by.Record("broker", access.AuditDone, fmt.Sprintf("put into container %s for session %v", in.ID, asker),
		j.info.ID, j.info.Root)
}

// enter makes the members of the session members of the one that the container is. What they start in the meantime is entered
// as their descendant, or as one of the container's main process, to which orphans go.
func (j joined) enter(in lookup.FoundContainer) {
	k := j.by.o.Kernel
	main, err := k.Lookup(in.Main)
	var members []tracer.Identity
	if err == nil {
		err = k.Snapshot(j.info.ID, func(t *tracer.Process) error {
			if !t.Dead {
				members = append(members, t.Identity)
			}
			return nil
		})
	}
	j.letGo("put into a container that is a session")
	if err != nil || main.Session == 0 {
		return
	}
	for _, m := range members {
		switch err := k.Enter(0, main.Session, m, tracer.Identity{}, tracer.SourceJoin); {
		case errors.Is(err, tracer.ErrNotFound), errors.Is(err,
			tracer.ErrProtected), errors.Is(err, tracer.ErrBusy):
		case err != nil:
			j.by.o.Log.Error().Err(err).Str(system.KeySession,
				main.Session.String()).Uint32(system.KeyPID, m.PID).
				Msg("command in a container not entered")
		}
	}
	_, err = k.Adopt(main.Session, 0)
	system.Failure(j.by.o.Log, err).
		Str(system.KeySession, main.Session.String()).Msg("descendants of a command in a container not entered")
}

// final reports whether another look for a container would find nothing else. A process that exits may look as
// if it were in none.
func final(err error, rootLives bool) bool {
	return errors.Is(err, lookup.ErrInner) || errors.Is(err, lookup.ErrNoContainer) && rootLives
}

// container finds the container by the root while that lives, else by what the root has left: the kernel gives that to PID 1 of
// the root's PID namespace, whatever namespaces and cgroups it has made since.
func (j joined) container() (in lookup.FoundContainer, rootLives bool, err error) {
	root := j.info.Root
	var left []tracer.Identity
	parents, dead := make(map[uint32]uint32), make(map[uint32]bool)
	failed := j.by.o.Kernel.Snapshot(j.info.ID, func(t *tracer.Process) error {
		parents[t.PID] = t.Parent.PID
		if dead[t.PID] = t.Dead; t.Dead {
			return nil
		}
		rootLives = rootLives || t.Identity == root
		if len(left) < MaxFacts {
			left = append(left, t.Identity)
		}
		return nil
	})
	switch {
	case failed != nil:
		return in, false, failed
	case rootLives:
		in, err = j.by.o.Containers.Entered(root.PID, root.PID)
		if now, e := j.by.o.Kernel.Lookup(root.PID); final(err, true) &&
			(e != nil || now.Identity != root) {
			err = errExiting
		}
		return in, true, err
	}
	err = lookup.ErrNoContainer // it will be empty
	for _, m := range left {
		found, e := in, errExiting
		if above := outside(m.PID, parents, dead); above != 0 {
			found, e = j.by.o.Containers.Entered(above, m.PID)
		}
		if e == nil || errors.Is(e, lookup.ErrInner) {
			return found, false, e
		}
		if errors.Is(err, lookup.ErrNoContainer) {
			err = e
		}
	}
	return in, false, err
}

// outside is the first ancestor in no session, 0 if the kernel is about to give a process another parent.
func outside(pid uint32, parents map[uint32]uint32, dead map[uint32]bool) uint32 {
	for range len(parents) {
		pid = parents[pid]
		if dead[pid] {
			return 0
		}
		if _, member := parents[pid]; !member {
			return pid
		}
	}
	return 0
}

var errExiting = errors.New("the process exits")

// letGo dissolves the session. There may be many, such as health checks: none is recorded.
func (j joined) letGo(why string) bool {
	if _, err := j.by.o.Kernel.Dissolve(j.info.ID); err != nil {
		j.by.failed(err, j.info.ID).Msg("process in a container not released")
		return false
	}
	j.by.o.Log.Debug().Str(system.KeySession,
		j.info.ID.String()).Uint32(system.KeyPID, j.info.Root.PID).
		Str(system.KeyWhy, why).Msg("process in a container released")
	j.forget()
	return true
}

func (j joined) forget() {
	j.by.o.Registry.Do(func(t registry.Tx) { t.LetGo(j.info.ID) })
}

// unasked reports whether a session was opened for a process in a container, is not judged, and
// nobody asked for its end: once it is empty, nothing of it is recorded.
func unasked(info tracer.SessionInfo) bool {
	return info.Joined && info.Rule == 0 && info.For == 0 && info.Cause == tracer.CauseRootExit
}
