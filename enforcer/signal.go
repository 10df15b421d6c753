//go:build linux

package enforcer

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

var ErrStranger = errors.New("not a member")

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

// Signal sends a signal to one member. It holds the process before it checks it, so that
// only the checked process can get the signal, even if the PID is reused. A [Refusal]
// wraps ErrGuarded, ErrIdentity, ErrUnknown or ErrStranger; nothing was sent then.
func (e *Enforcer) Signal(target, caller tracer.Identity, sig unix.Signal) (Outcome, error) {
	held, err := e.hold(target.PID)
	switch {
	case errors.Is(err, unix.ESRCH):
		return Gone, nil
	case err != nil:
		return 0, &Refusal{Kind: ErrUnknown, Process: target, Why: "cannot be held", Err: err}
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
	if err := spared.refuse(&p); err != nil {
		return 0, err
	}
	if p.Zombie {
		return Gone, nil
	}
	switch err := held.Signal(sig); {
	case errors.Is(err, unix.ESRCH):
		return Gone, nil
	case err != nil:
		return 0, fmt.Errorf("signal pid %d: %w", target.PID, err)
	}
	return Sent, nil
}

// Outsider is the refusal to signal a process that is in no session.
func Outsider(p tracer.Identity, comm string) *Refusal {
	return &Refusal{Kind: ErrStranger, Process: p, Comm: comm, Why: "is not a member of a session"}
}

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
