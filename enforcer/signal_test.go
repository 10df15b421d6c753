//go:build linux

package enforcer

import (
	"errors"
	"os/exec"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

func TestSignal(t *testing.T) {
	broken := errors.New("broken")
	type to struct {
		pid uint32
		sig unix.Signal
	}
	sent := func(pid uint32, sig unix.Signal) []to { return []to{{pid, sig}} }
	zombie := func(k *kerneltest.Kernel, parent uint32) {
		reaper := k.Proc(parent).Identity
		k.Edit(31, func(p *kerneltest.Proc) { p.Unreaped, p.Parent = true, reaper })
		k.Exit(31, 0)
	}
	for _, c := range []struct {
		name    string
		set     func(k *kerneltest.Kernel, id tracer.SessionID)
		target  uint32
		sig     unix.Signal
		outcome Outcome
		refused error
		want    []to
	}{
		{"TERM", nil, 31, unix.SIGTERM, Sent, nil, sent(31, unix.SIGTERM)},
		{"KILL", nil, 31, unix.SIGKILL, Sent, nil, sent(31, unix.SIGKILL)},
		{"CONT", nil, 31, unix.SIGCONT, Sent, nil, sent(31, unix.SIGCONT)},
		{"the root", nil, 30, unix.SIGTERM, Sent, nil, sent(30, unix.SIGTERM)},
		{"a stranger", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Add(40, 1, "other") }, 40, unix.SIGKILL, 0, ErrStranger, nil},
		{"the caller", func(k *kerneltest.Kernel, id tracer.SessionID) { join(k, 21, id) }, 21, unix.SIGKILL, 0, ErrGuarded, nil},
		{"a protected member", func(k *kerneltest.Kernel, _ tracer.SessionID) {
			k.Edit(31, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
		}, 31, unix.SIGKILL, 0, ErrGuarded, nil},
		{"query fails", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Fail("Snapshot", broken) }, 31, unix.SIGKILL, 0, ErrUnknown, nil},
		{"it cannot be held", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Fail("Hold", unix.EMFILE) }, 31, unix.SIGKILL, 0, ErrUnknown, nil},
		{"a dead one", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Exit(31, 0) }, 31, unix.SIGKILL, Gone, nil, nil},
		{"a zombie", func(k *kerneltest.Kernel, _ tracer.SessionID) { zombie(k, 30) }, 31, unix.SIGKILL, Gone, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, e, id := host(t)
			e.hold = func(pid uint32) (Handle, error) { return k.Hold(pid) }
			target := k.Proc(c.target)
			if c.set != nil {
				c.set(k, id)
			}
			if target == nil {
				target = k.Proc(c.target)
			}
			outcome, err := e.Signal(target.Identity, k.Proc(21).Identity, c.sig)
			if outcome != c.outcome || !errors.Is(err, c.refused) || c.refused == nil && err != nil {
				t.Errorf("got %v, %v; want %v, %v", outcome, err, c.outcome, c.refused)
			}
			var refusal *Refusal
			if c.refused != nil && !errors.As(err, &refusal) {
				t.Errorf("%v is no refusal", err)
			}
			var got []to
			for _, s := range k.Sent() {
				got = append(got, to{s.To.PID, s.Signal})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %v, want %v", got, c.want)
			}
		})
	}
}

// TestSignalNeverHitsAnother: the PID is reused at every moment at which it can be. The new process is not hit.
func TestSignalNeverHitsAnother(t *testing.T) {
	const early, held, seen, sent = "before it is held", "when it is held", "when it was seen", "when it is sent"
	for when, refused := range map[string]error{early: ErrIdentity, held: ErrIdentity, seen: nil, sent: nil} {
		t.Run(when, func(t *testing.T) {
			k, e, _ := host(t)
			target := k.Proc(31).Identity
			reuse := func() {
				k.Exit(31, 0)
				k.Fork(30, 31, "another")
			}
			e.hold = func(pid uint32) (Handle, error) {
				h, err := k.Hold(pid)
				if when == sent {
					return late{h, reuse}, err
				}
				if when == held {
					reuse()
				}
				return h, err
			}
			switch when {
			case early:
				reuse()
			case seen:
				e.kernel = looked{k, reuse}
			}
			o, err := e.Signal(target, k.Proc(21).Identity, unix.SIGKILL)
			if !errors.Is(err, refused) || (o == Gone) != (refused == nil) || len(k.Sent()) != 0 {
				t.Errorf("%v, %v, sent %v", o, err, k.Sent())
			}
		})
	}
}

// looked runs then after each look at the host.
type looked struct {
	*kerneltest.Kernel
	then func()
}

func (l looked) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	defer l.then()
	return l.Kernel.Snapshot(id, each)
}

// late runs first right before the signal.
type late struct {
	*kerneltest.Handle
	first func()
}

func (l late) Signal(sig unix.Signal) error {
	l.first()
	return l.Handle.Signal(sig)
}

// TestPidfd: the handle of a real process.
func TestPidfd(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	h, err := hold(uint32(cmd.Process.Pid))
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, h.Signal(unix.SIGKILL))
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	require.Soon(t, exited, "the process lives")
	require.ErrorIs(t, h.Signal(unix.SIGKILL), unix.ESRCH, "a dead one")
	_, err = hold(uint32(cmd.Process.Pid))
	require.ErrorIs(t, err, unix.ESRCH, "a PID that nobody has")
}
