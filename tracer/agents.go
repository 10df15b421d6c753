//go:build linux

package tracer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/takeover"
)

// Agent opens a session for every process that execs under Comm and is in none, before
// its first fork. Whether it is the intended program must be checked afterwards:
// Dissolve releases a lookalike.
type Agent struct {
	Comm string // 1 to 15 bytes
	// Nests also opens a session inside another one, unless the process is the root of
	// that one.
	Nests bool
	Exact bool // nothing but the name makes it one: a halt refuses it

	Grace          time.Duration
	KeepOnRootExit bool
}

// enum agent_flags, enum looks, and END_AT_HALT of bpf/lineage.h.
const (
	agentNests = 1
	agentExact = 2
	lookNames  = 1
	lookJoins  = 2
	lookMains  = 4
	lookTraces = 8
	endAtHalt  = 1
)

// SetAgents replaces all agents; nil: no agents. Open sessions stay. The same Comm
// twice, or more agents than the kernel side holds, is an error, and then nothing has
// changed.
func (t *Tracer) SetAgents(agents []Agent) error {
	wanted := make(map[Comm]bpf.LineageAgent, len(agents))
	for _, a := range agents {
		var comm Comm
		copy(comm[:len(comm)-1], a.Comm)
		if a.Comm == "" || comm.String() != a.Comm {
			return fmt.Errorf("set agents: comm %q: must be 1 to 15 bytes", a.Comm)
		}
		if _, twice := wanted[comm]; twice {
			return fmt.Errorf("set agents: comm %q is listed twice", a.Comm)
		}
		wanted[comm] = bpf.LineageAgent{
			Grace: uint64(a.Grace),
			Flags: flag[uint32](
				a.Nests,
				agentNests,
			) | flag[uint32](
				a.Exact,
				agentExact,
			),
			SessionFlags: flag[uint32](a.KeepOnRootExit, sessionKeepOnRootExit),
		}
	}
	m := t.maps[bpf.LineageMapAgents]
	if max := int(m.MaxEntries()); len(wanted) > max {
		return fmt.Errorf("set agents: %d are more than %d", len(wanted), max)
	}
	t.late.Lock()
	defer t.late.Unlock()
	if err := t.late.watch(t, wanted); err != nil {
		return fmt.Errorf("set agents: %w", err)
	}
	var stale []Comm
	err := takeover.Each(m, func(comm Comm, _ *bpf.LineageAgent) {
		if _, keep := wanted[comm]; !keep {
			stale = append(stale, comm)
		}
	})
	if err != nil {
		return fmt.Errorf("set agents: %w", err)
	}
	for _, comm := range stale {
		if err := m.Delete(comm); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("set agents: %w", err)
		}
	}
	for comm, v := range wanted {
		if err := m.Put(comm, v); err != nil {
			return fmt.Errorf("set agents: %w", err)
		}
	}
	t.look(lookNames, len(wanted) > 0)
	return nil
}

// SetJoins chooses whether a session is opened for every process that execs, is in no session, and was
// put into a PID namespace from outside, as runc exec does, or is PID 1 of a namespace in which its parent
// is not, as a container's main process: [SessionInfo].Joined. Whether that is a container that a rule wants
// must be checked afterwards, as for agents. The session outlives its root until [Tracer.SetTerms]. Open
// sessions stay.
func (t *Tracer) SetJoins(commands, mains bool) {
	t.late.Lock()
	defer t.late.Unlock()
	t.look(lookJoins, commands)
	t.look(lookMains, mains)
}

// SetTraces chooses whether the exec events of an agent's children have [Event].Traceparent. An agent is the root of a
// session, or a process that [Tracer.SetCall] named. It costs each of these execs a read of each variable.
func (t *Tracer) SetTraces(on bool) {
	t.late.Lock()
	defer t.late.Unlock()
	t.look(lookTraces, on)
}

// look chooses whether the exec hook looks for one thing. The caller holds t.late.
func (t *Tracer) look(which uint32, on bool) {
	t.control.setLooks(atomic.LoadUint32(&t.control.shared.Agents)&^which | flag(on, which))
}

// lateAgents finds agents that no exec hook saw, and opens their sessions.
type lateAgents struct {
	agents map[Comm]bpf.LineageAgent
	before map[Identity]uint64 // the execs that are not late: [Process.Exec]
}

// execs returns the last exec of every process. An exec takes its name before the hook sees it, on a
// slow host long before. So execs are read before our hooks are attached, which takes longer.
func (t *Tracer) execs() (map[Identity]uint64, error) {
	all := map[Identity]uint64{}
	return all, t.Snapshot(0, func(p *Process) error {
		all[p.Identity] = p.Exec
		return nil
	})
}

// OpenMissedAgents opens the sessions of agents whose exec the exec hook missed because of the kernel's
// recursion guard, and counts them. [Tracer.RecursionMisses] shows when to call it. An exec is not
// missed if the process had made it when SetAgents first set its name, or at the last call.
func (t *Tracer) OpenMissedAgents() (int, error) {
	t.late.Lock()
	defer t.late.Unlock()
	if len(t.late.agents) == 0 {
		return 0, nil
	}
	n, err := t.late.open(t)
	if err != nil {
		return n, fmt.Errorf("open the sessions of missed agents: %w", err)
	}
	return n, nil
}

// watch replaces the agents. A process that already runs under a new name is not late.
func (l *lateAgents) watch(t *Tracer, agents map[Comm]bpf.LineageAgent) error {
	before := map[Identity]uint64{}
	if len(agents) > 0 {
		err := t.Snapshot(0, func(p *Process) error {
			_, wanted := agents[p.Comm]
			if _, had := l.agents[p.Comm]; wanted && (!had || l.before[p.Identity] == p.Exec) {
				before[p.Identity] = p.Exec
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	l.agents, l.before = agents, before
	return nil
}

// open opens the sessions that the exec hook would have opened, oldest agent first, so that an
// agent inside another one's session is nested in it.
func (l *lateAgents) open(t *Tracer) (n int, err error) {
	var late []Process
	seen := map[Identity]uint64{}
	err = t.Snapshot(0, func(p *Process) error {
		if _, ok := l.agents[p.Comm]; !ok || p.Dead || p.Kernel || p.Flags&FlagProtected != 0 {
			return nil
		}
		seen[p.Identity] = p.Exec
		// A child has its creator's name until it execs.
		if p.Exec != 0 && p.Exec != l.before[p.Identity] {
			late = append(late, *p)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(late, func(a, b Process) int { return cmp.Compare(a.Start, b.Start) })
	for i := range late {
		opened, err := l.openOne(t, &late[i])
		if err != nil {
			return n, fmt.Errorf("open the session of agent %v: %w", late[i].Identity, err)
		}
		if opened {
			n++
		}
	}
	l.before = seen
	return n, nil
}

// openOne opens a session for a process that runs under an agent's name, unless the exec hook did.
func (l *lateAgents) openOne(t *Tracer, p *Process) (opened bool, err error) {
	g := l.agents[p.Comm]
	if e, err := t.Lookup(p.PID); err == nil && e.Identity == p.Identity {
		p.Session = e.Session // perhaps an older agent's by now
	}
	if p.Session != 0 {
		s, err := t.Session(p.Session)
		if err != nil || s.Root == p.Identity || g.Flags&agentNests == 0 {
			return false, nil
		}
	}
	id, err := t.Create(SessionSpec{
		Root: p.Identity, Name: p.Comm.String(), UID: p.UID, Source: SourceRule,
		Adopted: true, agent: true, inside: p.Session,
		Grace: time.Duration(g.Grace), KeepOnRootExit: g.SessionFlags&sessionKeepOnRootExit != 0,
	})
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrTooDeep), errors.Is(err, ErrFull):
		return false, nil // it has exited; or its exec would not have opened one either
	case err != nil:
		return false, err
	case p.Session != 0:
		_, err = t.Follow(p.Session, id)
	default:
		_, err = t.Adopt(id, 0)
	}
	return true, err
}

// MaxReason is how many bytes [Halt].Reason may have.
const MaxReason = len(bpf.LineageHalt{}.Reason)

// SetHalt replaces the halt, and with [HaltAll] ends sessions as [Tracer.End] does without a grace:
// all of them by the one store that puts it in force, so that the kernel side ends all or none if the
// caller is killed. One that is gone is left out. No halt before had the same time, unless this one
// adds sessions to it. After it, an agent that execs dies, or its session is among [Tracer.Sessions].
// Agents that the exec hook missed get a session from [Tracer.OpenMissedAgents], halt or not.
func (t *Tracer) SetHalt(h Halt, ends []SessionID) error {
	if len(h.Reason) > MaxReason {
		return fmt.Errorf("set halt: reason of %d bytes: at most %d", len(h.Reason), MaxReason)
	}
	if err := t.markHalted(h, ends); err != nil {
		return err
	}
	t.putHalt(h)
	if len(ends) == 0 {
		return nil
	}
	_, err := t.Sentence()
	return err
}

func (t *Tracer) markHalted(h Halt, ends []SessionID) error {
	for _, id := range ends {
		err := t.onSession(bpf.LineageProgVerbEnd, "halt",
			&bpf.LineageVerbArgs{Session: uint64(id), Grace: h.Since, Flags: endAtHalt})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

func (t *Tracer) putHalt(h Halt) {
	t.late.Lock()
	defer t.late.Unlock()
	to := &t.control.shared.Halt
	if h.Mode == HaltNone {
		atomic.StoreUint32(&to.Mode, uint32(HaltNone))
	}
	to.Since, to.Uid, to.Reason = h.Since, h.UID, [MaxReason]uint8{}
	copy(to.Reason[:], h.Reason)
	atomic.StoreUint32(&to.Mode, uint32(h.Mode))
	atomic.StoreUint64(&t.control.shared.Due, 1) // the hooks make a pass, if we do not live to
}

func (t *Tracer) Halted() Halt {
	t.late.Lock()
	defer t.late.Unlock()
	h := &t.control.shared.Halt
	return halt(bpf.LineageHalt{Since: h.Since, Mode: atomic.LoadUint32(&h.Mode), Uid: h.Uid, Reason: h.Reason})
}

// PinnedHalt returns the halt that is in force for the programs that are pinned under dir, by any version; no daemon
// need run, and nothing is changed.
func PinnedHalt(dir string) (Halt, error) {
	names, err := complete(dir)
	if err != nil {
		return Halt{}, err
	}
	p, err := openPrevious(dir, names)
	if p == nil {
		return Halt{}, err
	}
	defer p.Close()
	h, err := p.Halt()
	return halt(h), err
}

func halt(h bpf.LineageHalt) Halt {
	reason, _, _ := bytes.Cut(h.Reason[:], []byte{0})
	return Halt{Mode: HaltMode(h.Mode), Since: h.Since, UID: h.Uid, Reason: string(reason)}
}
