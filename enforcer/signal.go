//go:build linux

package enforcer

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

var (
	// ErrStranger: the process is not a member of a session.
	ErrStranger = errors.New("not a member")
	// ErrNoZombie: SIGCHLD goes only to the parent of a zombie.
	ErrNoZombie = errors.New("not a zombie")
	// ErrForbidden: the process belongs to a uid that the caller may not signal.
	ErrForbidden = errors.New("another uid")
)

// Outcome is the result of a signal.
type Outcome uint8

// The results of a signal.
const (
	Sent Outcome = iota
	Gone         // it was dead before it could be signalled
)

func (o Outcome) String() string { return [...]string{"sent", "gone"}[o] }

// Handle refers to a process, even after its PID is reused.
type Handle interface {
	// Signal returns unix.ESRCH if the process is dead.
	Signal(unix.Signal) error
	Close()
}

// Nudge is the uid whose processes may be reminded to reap, see Signal.
type Nudge struct {
	UID uint32
	All bool
}

// Signal sends a signal to one member, or SIGCHLD to the parent that must reap it. It
// holds the process before it checks it, so that only the checked process can get the
// signal, even if the PID is reused. A [Refusal] wraps ErrGuarded, ErrIdentity,
// ErrUnknown, ErrStranger, ErrNoZombie or ErrForbidden; nothing was sent then.
//
// The parent need not be a member. SIGCHLD only repeats what the kernel sent it, but
// the parent may be another user's: nudge limits the uid.
func (e *Enforcer) Signal(target, caller tracer.Identity, sig unix.Signal, nudge Nudge) (Outcome, error) {
	held, err := e.hold(target.PID)
	if err != nil {
		return e.absent(target, err)
	}
	defer held.Close()
	host, spared, err := e.look(caller)
	if err != nil {
		return 0, err
	}
	p, ok := host[target.PID]
	switch {
	case !ok:
		return Gone, nil
	case p.Identity != target:
		return 0, &Refusal{Kind: ErrIdentity, Process: target, Why: "is another process now"}
	case p.Session == 0:
		return 0, Outsider(target, p.Comm.String())
	}
	if sig == unix.SIGCHLD {
		return e.nudge(host, spared, &p, nudge)
	}
	if err := spared.refuse(&p); err != nil {
		return 0, err
	}
	if p.Zombie {
		return Gone, nil
	}
	return send(held, target, sig)
}

// Outsider is the refusal to signal a process that is in no session.
func Outsider(p tracer.Identity, comm string) *Refusal {
	return &Refusal{Kind: ErrStranger, Process: p, Comm: comm, Why: "is not a member of a session"}
}

// Wake continues the owner of a session whose root is dead, if the owner is stopped: a
// suspended job of a shell cannot notice the death while it is stopped. No member is
// affected, and no other process is hit: see Signal.
func (e *Enforcer) Wake(owner tracer.Identity) error {
	if e.taskState(owner.PID) != 'T' {
		return nil
	}
	held, err := e.hold(owner.PID)
	if err != nil {
		_, err = e.absent(owner, err)
		return err
	}
	defer held.Close()
	switch err := e.CheckTarget(owner); {
	case errors.Is(err, ErrIdentity):
		return nil // it is dead
	case err != nil:
		return err
	}
	_, err = send(held, owner, unix.SIGCONT)
	return err
}

// nudge reminds the parent of a zombie to reap it.
func (e *Enforcer) nudge(host hostProcs, spared spared, p *tracer.Process, whose Nudge) (Outcome, error) {
	if !p.Zombie {
		return 0, &Refusal{Kind: ErrNoZombie, Process: p.Identity, Comm: p.Comm.String(), Why: "is not a zombie"}
	}
	parent, ok := host[p.Parent.PID]
	if !ok { // some kernels hide PID 1 from iterators
		parent = tracer.Process{Identity: p.Parent}
	}
	if err := spared.refuse(&parent); err != nil {
		return 0, err
	}
	if !whose.All && parent.UID != whose.UID {
		return 0, &Refusal{Kind: ErrForbidden, Process: parent.Identity, Comm: parent.Comm.String(),
			Why: fmt.Sprintf("has to reap it and belongs to uid %d", parent.UID)}
	}
	held, err := e.hold(parent.PID)
	if err != nil {
		return e.absent(parent.Identity, err)
	}
	defer held.Close()
	if err := e.CheckTarget(parent.Identity); err != nil {
		return 0, err
	}
	return send(held, parent.Identity, unix.SIGCHLD)
}

// absent handles a process that could not be held.
func (e *Enforcer) absent(id tracer.Identity, err error) (Outcome, error) {
	if errors.Is(err, unix.ESRCH) {
		return Gone, nil
	}
	return 0, &Refusal{Kind: ErrUnknown, Process: id, Why: "cannot be held", Err: err}
}

func send(held Handle, id tracer.Identity, sig unix.Signal) (Outcome, error) {
	err := held.Signal(sig)
	if errors.Is(err, unix.ESRCH) {
		return Gone, nil
	}
	if err != nil {
		return 0, fmt.Errorf("signal pid %d: %w", id.PID, err)
	}
	return Sent, nil
}

// pidfd is the Handle of a real process.
type pidfd int

// hold opens a pidfd; needs 5.3.
func hold(pid uint32) (Handle, error) {
	fd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		return nil, err
	}
	return pidfd(fd), nil
}

func (p pidfd) Signal(sig unix.Signal) error { return unix.PidfdSendSignal(int(p), sig, nil, 0) }
func (p pidfd) Close()                       { unix.Close(int(p)) }
