//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// Refuser is the kind of program that refuses members a system call: forks of condemned
// ones, which helps an end and proves nothing, see docs/DESIGN.md; and signals of guarded
// ones, see [Tracer.SetGuard].
type Refuser int

// In the order in which they are tried.
const (
	RefuserNone Refuser = iota
	RefuserLSM
	RefuserFmodRet
)

var refuserNames = [...]string{"none", "lsm", "fmod_ret"}

func (r Refuser) String() string {
	if r < 0 || int(r) >= len(refuserNames) {
		return fmt.Sprintf("Refuser(%d)", int(r))
	}
	return refuserNames[r]
}

// refusal is what may be refused.
type refusal struct {
	programs [2]string // in the order of the kinds
	without  string    // what is true if none of them loads
}

var (
	forkRefusal = refusal{[2]string{bpf.LineageProgRefuseLsm, bpf.LineageProgRefuseFmodRet},
		"condemned members may fork"}
	signalRefusal = refusal{[2]string{bpf.LineageProgGuardLsm, bpf.LineageProgGuardFmodRet},
		"guarded members may signal others"}
)

// refuse loads the programs that refuse forks and signals, and adds their links. If one is
// missing, the features say why.
func (t *Tracer) refuse(k *kernel, links map[string]link.Link) {
	r, err := k.findRefuser()
	load := func(what refusal) Refuser {
		err := err
		if err == nil {
			name := what.programs[r-1]
			p, l, bad := t.loadSingle(k, name)
			if bad == nil {
				t.programs[name], links[name] = p, l
				return r
			}
			err = fmt.Errorf("%v: %s", r, reason(bad))
		}
		t.features.Limits = append(t.features.Limits, what.without+": "+err.Error())
		return RefuserNone
	}
	t.features.Refuses, t.features.RefusesSignals = load(forkRefusal), load(signalRefusal)
}

// pinnedRefuser opens the refuser that the pinned kernel side was loaded with.
func (t *Tracer) pinnedRefuser(what refusal) Refuser {
	dir := filepath.Join(t.dir, t.pins)
	for i, name := range what.programs {
		if _, err := os.Stat(pinPath(dir, linkPin, name)); err != nil {
			continue
		}
		if p, err := ebpf.LoadPinnedProgram(pinPath(dir, programPin, name), nil); err == nil {
			t.programs[name] = p
			return Refuser(i + 1)
		}
	}
	t.features.Limits = append(t.features.Limits, what.without+": refused when the kernel side was loaded")
	return RefuserNone
}

// findRefuser tries which programs can refuse a fork on this kernel, and checks that
// they act: without bpf in lsm= an LSM program loads and attaches, but never runs.
func (k *kernel) findRefuser() (Refuser, error) {
	lsm := k.tryLSM()
	if lsm == nil {
		return RefuserLSM, nil
	}
	fmodRet := k.tryRefusal(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachModifyReturn, AttachTo: "security_task_alloc",
	})
	if fmodRet == nil {
		return RefuserFmodRet, nil
	}
	return RefuserNone, fmt.Errorf("lsm: %s; fmod_ret: %s", lsmReason(lsm), reason(fmodRet))
}

// tryLSM returns why an LSM program does nothing on this kernel, nil if it acts.
func (k *kernel) tryLSM() error {
	return k.tryRefusal(&ebpf.ProgramSpec{Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac, AttachTo: "task_alloc"})
}

func lsmReason(err error) string {
	lsms := procfs.ActiveLSMs()
	if !errors.Is(err, errIdle) || slices.Contains(strings.Split(lsms, ","), "bpf") {
		return reason(err)
	}
	return fmt.Sprintf("%v, as bpf is not among the security modules (%s)", err, lsms)
}

// tryRefusal attaches a program that refuses forks to this process alone, and forks: no
// program is run, whether the fork is refused or not.
func (k *kernel) tryRefusal(spec *ebpf.ProgramSpec) error {
	if err := k.trampolines(); err != nil {
		return err
	}
	const getCurrentPIDTgid = asm.FnGetCurrentPidTgid
	spec.License = "GPL"
	spec.Instructions = asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord), // clone_flags
		getCurrentPIDTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(os.Getpid()), "pass"),
		asm.And.Imm(asm.R6, unix.CLONE_THREAD),
		asm.JNE.Imm(asm.R6, 0, "pass"),
		asm.Mov.Imm(asm.R0, -int32(unix.EPERM)),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("pass"),
		asm.Return(),
	}
	p, err := k.load(spec)
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := attachSingle(p)
	if err != nil {
		return err
	}
	defer l.Close()
	// Not os.StartProcess: it tests features of the kernel once per process, and would
	// remember this refusal.
	_, err = syscall.ForkExec("/proc/self/no-such-file", []string{"no-such-file"}, nil)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil
	case errors.Is(err, unix.ENOENT):
		return errIdle
	}
	return fmt.Errorf("fork: %w", err)
}

// enum guard of bpf/lineage.h.
const (
	guardAny = 1 << iota
	guardAll
	guardRefuses
)

// SetGuard replaces what is guarded, for open sessions too. It holds while no process has
// the tracer open.
//
// A signal that kills or stops, from a member of a guarded session to a process that is
// neither in that session nor in one nested in it, is an [EventCrossing]: one that was
// sent, or, if g.Refuse and [Features].RefusesSignals say so, one that was refused with EPERM.
// The kernel's own signals, and those of processes in no session, are never refused.
func (t *Tracer) SetGuard(g Guarding) {
	v := flag[uint32](g.All || g.Some, guardAny) | flag[uint32](g.All, guardAll)
	atomic.StoreUint32(&t.control.shared.Guard, v|flag[uint32](v != 0 && g.Refuse, guardRefuses))
}
