//go:build linux

package enforcer

import (
	"cmp"
	"errors"
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// host is a kernel with a daemon (10 under 9), a shell (20) with a caller
// (21), and a session s over root 30 (child of the shell) with member 31.
func host(t *testing.T) (*kerneltest.Kernel, *Enforcer, tracer.SessionID) {
	t.Helper()
	k := kerneltest.New()
	k.Add(9, 1, "starter")
	daemon := k.Add(10, 9, "lineage")
	k.Add(20, 1, "shell")
	k.Add(21, 20, "run")
	k.Add(30, 20, "agent")
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(30).Identity, Name: "s"})
	require.NoError(t, err)
	k.Fork(30, 31, "worker")
	return k, New(k, Options{Self: daemon.Identity, Clock: k.Now, Proc: procfs.FS(t.TempDir())}), id
}

// join makes an existing process a member of the session, as if the session had been
// created above it.
func join(k *kerneltest.Kernel, pid uint32, id tracer.SessionID) {
	k.Edit(pid, func(p *kerneltest.Proc) { p.Session = id })
}

func TestCheckEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name   string
		set    func(*kerneltest.Kernel, tracer.SessionID)
		caller uint32
		want   error
	}{
		{"ordinary members", nil, 21, nil},
		{"init", func(k *kerneltest.Kernel, id tracer.SessionID) { join(k, 1, id) }, 21, ErrGuarded},
		{"kernel thread", func(k *kerneltest.Kernel, id tracer.SessionID) { join(k, 2, id) }, 21, ErrGuarded},
		{"daemon", func(k *kerneltest.Kernel, id tracer.SessionID) { join(k, 10, id) }, 21, ErrGuarded},
		{"daemon's ancestor", func(k *kerneltest.Kernel, id tracer.SessionID) { join(k, 9, id) }, 21, ErrGuarded},
		{"caller", nil, 31, ErrGuarded},
		{"caller's ancestor", func(k *kerneltest.Kernel, id tracer.SessionID) { join(k, 20, id) }, 21, ErrGuarded},
		{"protected member", func(k *kerneltest.Kernel, _ tracer.SessionID) {
			k.Edit(31, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
		}, 21, ErrGuarded},
		{"zombie of the caller's line", func(k *kerneltest.Kernel, id tracer.SessionID) {
			join(k, 20, id)
			k.Edit(20, func(p *kerneltest.Proc) { p.Dead, p.Zombie = true, true })
		}, 21, nil},
		{"query fails", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Fail("Snapshot", broken) }, 21, ErrUnknown},
		{"caller not in the snapshot", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Edit(21, func(p *kerneltest.Proc) { p.Start++ }) }, 0, ErrUnknown},
		{"ancestor not in the snapshot", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Edit(20, func(p *kerneltest.Proc) { p.Start++ }) }, 21, ErrUnknown},
		{"caller's session is gone", func(k *kerneltest.Kernel, _ tracer.SessionID) { join(k, 21, 99) }, 21, ErrGuarded},
		{"sessions fail", func(k *kerneltest.Kernel, _ tracer.SessionID) { k.Fail("Session", broken) }, 31, ErrUnknown},
		{"nested session", func(k *kerneltest.Kernel, _ tracer.SessionID) {
			if _, err := k.Create(tracer.SessionSpec{Root: k.Proc(31).Identity}); err != nil {
				panic(err)
			}
			k.Edit(31, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
		}, 21, ErrGuarded},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, e, id := host(t)
			caller := k.Proc(21).Identity
			if c.caller != 0 {
				caller = k.Proc(c.caller).Identity
			}
			if c.set != nil {
				c.set(k, id)
			}
			all, err := e.CheckEnds([]tracer.SessionID{id}, caller)
			if err = cmp.Or(err, all[id]); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			var members []tracer.Process
			_ = k.Snapshot(0, func(p *tracer.Process) error {
				if p.Session != 0 {
					members = append(members, *p)
				}
				return nil
			})
			if err := e.CheckMembers(members, caller); (err == nil) != (c.want == nil) {
				t.Errorf("as a branch: %v", err)
			}
			var r *Refusal
			if c.want != nil && (!errors.As(err, &r) || r.Error() == "") {
				t.Errorf("%v is no refusal with a text", err)
			}
			if len(k.Signals()) != 0 {
				t.Errorf("signals were sent: %v", k.Signals())
			}
		})
	}
}

func TestCheckRoot(t *testing.T) {
	k, e, _ := host(t)
	child := k.Add(22, 21, "shim")
	for pid, want := range map[uint32]error{1: ErrGuarded, 2: ErrGuarded, 10: ErrGuarded, 9: ErrGuarded, 20: ErrGuarded, 22: nil} {
		if err := e.CheckRoot(k.Proc(pid).Identity, k.Proc(21).Identity); !errors.Is(err, want) {
			t.Errorf("pid %d: got %v, want %v", pid, err, want)
		}
	}
	other := child.Identity
	other.Start++
	require.ErrorIs(t, e.CheckRoot(other, k.Proc(21).Identity), ErrIdentity, "another process")
	require.ErrorIs(t, e.CheckRoot(tracer.Identity{PID: 4000}, k.Proc(21).Identity), ErrIdentity, "nobody")
}
