//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/internal/protocol"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// world is one sequence of steps: the oracle, and the real processes and the kernel side
// that must agree with it.
type world struct {
	*oracle
	*stage
	t     *rapid.T
	cmd   *exec.Cmd
	taken int // take-overs so far
}

func newWorld(t *rapid.T, s *stage) *world {
	w := &world{stage: s, t: t}
	cmd, channel, err := s.theatre.keeper()
	w.must(err, "start the keeper")
	w.cmd = cmd
	w.oracle = newOracle(t, &process{name: "keeper", channel: channel, id: tracer.Identity{PID: uint32(cmd.Process.Pid)}})
	return w
}

// must fails with a message that is the same in each run of a sequence: rapid compares
// them.
func (w *world) must(err error, what string, args ...any) {
	w.t.Helper()
	if err != nil {
		w.t.Logf("%v", err)
		w.t.Fatalf("cannot "+what, args...)
	}
}

// leave makes all processes exit, and waits for that.
func (w *world) leave() error {
	for _, p := range append(w.processes, w.keeper) {
		if p.channel > 0 {
			unix.Close(p.channel)
		}
	}
	return waited(w.cmd)
}

// tell makes a process do something; it answers when that is done.
func (w *world) tell(p *process, command string, args ...any) string {
	w.t.Helper()
	said, err := ask(p.channel, fmt.Sprintf(command, args...))
	w.must(err, "have %s %s", p.name, strings.Fields(command)[0])
	return said
}

// born forks a process, or vforks one that execs under a name.
func (w *world) born(parent *process, name string) *process {
	w.t.Helper()
	command := "fork"
	if name != "" {
		command = "vfork " + w.theatre.names[name]
	}
	p := w.fork(parent)
	w.t.Logf("%s = %s of %s %s", p.name, strings.Fields(command)[0], parent.name, name)
	_, err := fields(w.tell(parent, "%s", command), "child")
	w.must(err, "have %s fork", parent.name)
	channel, pid, err := w.theatre.accept()
	p.channel = channel
	w.must(err, "hear of %s", p.name)
	p.id, err = w.tr.Identify(pid)
	w.must(err, "identify %s", p.name)
	if name != "" {
		w.named(p, w.exec(p, name))
	}
	return p
}

func (w *world) become(p *process, name string) {
	w.t.Logf("%s execs as %s", p.name, name)
	w.tell(p, "exec %s", w.theatre.names[name])
	w.named(p, w.exec(p, name))
}

// named finds the id of a session that an exec opened.
func (w *world) named(p *process, s *session) {
	if s == nil {
		return
	}
	e, err := w.tr.Lookup(p.id.PID)
	if err != nil || e.Session == 0 || slices.ContainsFunc(w.sessions, func(x *session) bool { return x.id == e.Session }) {
		w.t.Fatalf("the exec of %s opened no session", p.name)
	}
	w.t.Logf("opens %s in %s", s.name, named(s.parent))
	s.id = e.Session
}

func named(s *session) string {
	if s == nil {
		return "none"
	}
	return s.name
}

const hour = time.Hour

func (t terms) spec(root *process) tracer.SessionSpec {
	s := tracer.SessionSpec{Root: root.id, KeepOnRootExit: t.outlast, MaxProcesses: uint32(t.limit)}
	if t.patient {
		s.Grace = hour
	}
	return s
}

// found makes a session for a process: nested if it is a member, else its descendants
// are adopted.
func (w *world) found(root, owner *process, t terms, descend bool) {
	if descend {
		t.limit = 0 // there may be more of them already
	}
	spec := t.spec(root)
	from := root.in
	if from.depth() >= tracer.MaxDepth {
		if _, err := w.tr.Create(spec); !errors.Is(err, tracer.ErrTooDeep) {
			w.t.Fatalf("a session was nested too deep in %s", from.name)
		}
		return
	}
	if owner != nil {
		spec.Owner = owner.id
	}
	spec.Adopted = descend
	is, before := protocol.Terms{Outlasts: t.outlast, Patient: t.patient}, w.made
	if owner != nil {
		is.Owner = owner.number
	}
	if bad := w.host.Create(root.number, is); bad != "" {
		w.t.Fatalf("the machine cannot create a session: %s", bad)
	}
	w.learn()
	s := w.last(before)
	s.limit = t.limit
	w.t.Logf("%s over %s in %s, terms %+v, descendants %v", s.name, root.name, named(from), t, descend)
	var err error
	s.id, err = w.tr.Create(spec)
	w.must(err, "create %s", s.name)
	switch {
	case !descend:
	case from == nil:
		_, err = w.tr.Adopt(s.id, 0)
		w.act("adopt", s.number)
	default:
		_, err = w.tr.Follow(from.id, s.id)
		w.act("follow", s.number)
	}
	w.must(err, "enter the descendants of %s", s.name)
}

func (w *world) hold(p *process) {
	from := p.in
	spec := terms{outlast: true}.spec(p)
	spec.KeptFrom, spec.MaxLifetime = from.id, hour
	before := w.made
	w.act("keep", p.number)
	s := w.last(before)
	w.t.Logf("%s over %s, kept from %s", s.name, p.name, from.name)
	var err error
	s.id, err = w.tr.Create(spec)
	w.must(err, "keep %s", p.name)
	_, err = w.tr.Follow(from.id, s.id)
	w.must(err, "have the descendants of %s follow", p.name)
}

func (w *world) dissolve(s *session) {
	w.t.Logf("dissolve %s", s.name)
	_, err := w.tr.Dissolve(s.id)
	if s.state != active && s.state != dissolved {
		if !errors.Is(err, tracer.ErrBusy) {
			w.t.Fatalf("%s is %v and was dissolved", s.name, s.state)
		}
		return
	}
	w.must(err, "dissolve %s", s.name)
	if s.limit = 0; s.state == active {
		w.act("dissolve", s.number)
	}
}

func (w *world) release(s *session) {
	w.t.Logf("release %s", s.name)
	err := w.tr.Release(s.id)
	if !s.releasable() {
		if !errors.Is(err, tracer.ErrBusy) {
			w.t.Fatalf("%s was released although it is not over", s.name)
		}
		return
	}
	w.must(err, "release %s", s.name)
	w.act("release", s.number)
	if slices.Contains(w.sessions, s) {
		w.t.Fatalf("%s was released, and not by the machine", s.name)
	}
}

// end ends a session: now, or after a short grace, or after one that is never over.
func (w *world) end(s *session, grace time.Duration) {
	w.t.Logf("end %s after %v", s.name, grace)
	w.must(w.tr.End(s.id, tracer.CauseEnd, grace), "end %s", s.name)
	switch {
	case grace == 0:
		w.act("end", s.number)
	case s.state == active || grace == hour:
		w.act("end with grace", s.number)
	}
	if 0 < grace && grace < hour && s.state == tracer.StateEnding {
		w.act("deadline", s.number)
	}
}

func (w *world) takeOver(by *process) {
	w.taken++
	w.act("take over", 0)
	if by == nil {
		w.t.Logf("another kernel side takes over")
		w.must(w.next(), "take over")
		return
	}
	w.t.Logf("another kernel side takes over while %s starts agents", by.name)
	path := w.theatre.names["crowd"]
	if err := unix.Sendto(by.channel, []byte("crowd "+path), unix.MSG_NOSIGNAL, nil); err != nil {
		w.must(err, "have %s start agents", by.name)
	}
	w.must(w.next(), "take over")
	crowd, err := fields(w.tell(by, "stop"), "crowd")
	w.must(err, "have %s stop", by.name)
	w.agents += len(crowd)
	for _, pid := range crowd {
		w.until(func() string { return w.caught(pid, by) })
	}
	w.tell(by, "clear")
	all, err := w.tr.Sessions()
	w.must(err, "list the sessions")
	for s := by.in; s != nil; s = s.parent {
		s.anyForks = true // births during the take-over are counted by none or both
	}
	for _, s := range all {
		if w.of(s.ID) == nil {
			w.cleared(s.ID)
		}
	}
}

// caught returns what is wrong if an agent that was started during a take-over is in no
// session of its own. A vfork returns before the exec hook runs, so the last agent may
// still be in none.
func (w *world) caught(pid uint32, by *process) string {
	e, err := w.tr.Lookup(pid)
	if err != nil || e.Session == 0 {
		return fmt.Sprintf("an agent of %s is in no session after the take-over", by.name)
	}
	s, err := w.tr.Session(e.Session)
	if err != nil {
		return fmt.Sprintf("an agent of %s is in an unknown session after the take-over", by.name)
	}
	if s.Root != e.Identity || w.of(s.Parent) != by.in {
		return fmt.Sprintf("an agent of %s is in a session that is not its own after the take-over", by.name)
	}
	return ""
}

// cleared waits until the session of an agent that has exited is empty, and releases it.
func (w *world) cleared(id tracer.SessionID) {
	w.until(func() string {
		if s, err := w.tr.Settle(id); err != nil || s.State != tracer.StateEmpty {
			return "an agent has gone, and its session is not empty"
		}
		w.must(w.tr.Release(id), "release the session of an agent that has gone")
		return ""
	})
}

// of is the oracle's session with that id; nil for 0, and for an id that it does not have.
func (w *world) of(id tracer.SessionID) *session {
	i := slices.IndexFunc(w.sessions, func(s *session) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return w.sessions[i]
}
