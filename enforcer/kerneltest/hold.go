//go:build linux

package kerneltest

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// Sent is a signal to one process by its handle.
type Sent struct {
	To     tracer.Identity
	Signal unix.Signal
}

// Handle holds a process as a pidfd does.
type Handle struct {
	k  *Kernel
	id tracer.Identity
}

// Hold returns a handle on the process that has pid now.
func (k *Kernel) Hold(pid uint32) (*Handle, error) {
	defer k.lock()()
	if err := k.fail["Hold"]; err != nil {
		return nil, err
	}
	if p := k.procs[pid]; p != nil {
		return &Handle{k, p.Identity}, nil
	}
	return nil, unix.ESRCH
}

// Signal sends sig: SIGTERM and SIGKILL end the process as passes do.
func (h *Handle) Signal(sig unix.Signal) error {
	k := h.k
	defer k.lock()()
	p := k.of(h.id)
	if p == nil || p.Dead {
		return unix.ESRCH
	}
	k.sent = append(k.sent, Sent{h.id, sig})
	if (sig == unix.SIGKILL || sig == unix.SIGTERM && !p.IgnoreTerm) && !p.Stubborn {
		k.exit(p, uint32(sig))
	}
	return nil
}

// Close does nothing.
func (h *Handle) Close() {}

// Sent returns the signals that were sent by handle, oldest first.
func (k *Kernel) Sent() []Sent {
	defer k.lock()()
	return slices.Clone(k.sent)
}

// Runs says of a process what a test has set, else that its link is true.
func (k *Kernel) Runs(who tracer.Identity, _ string) (tracer.Running, error) {
	defer k.lock()()
	p := k.procs[who.PID]
	switch {
	case p == nil || p.Dead || who.Start != 0 && p.Identity != who:
		return tracer.Running{}, fmt.Errorf("compare the file of %v: %w", who, tracer.ErrNotFound)
	case p.Runs != nil:
		return *p.Runs, k.fail["Runs"]
	}
	return tracer.Running{File: true}, k.fail["Runs"]
}
