//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// Refuser is the kind of program that refuses forks of condemned members. It helps an
// end and proves nothing: see docs/DESIGN.md.
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

// refusers are the programs, in the order of the kinds.
var refusers = [...]string{bpf.LineageProgRefuseLsm, bpf.LineageProgRefuseFmodRet}

func (r Refuser) program() string { return refusers[r-1] }

// refuseForks loads the program that refuses forks and adds its link. If there is none,
// the features say why.
func (t *Tracer) refuseForks(k *kernel, links map[string]link.Link) {
	r, err := k.findRefuser()
	if err == nil {
		p, l, bad := t.loadSingle(k, r.program())
		if bad == nil {
			t.programs[r.program()], links[r.program()] = p, l
			t.features.Refuses = r
			return
		}
		err = fmt.Errorf("%v: %s", r, reason(bad))
	}
	t.features.Limits = append(t.features.Limits, "condemned members may fork: "+err.Error())
}

// pinnedRefuser is the refuser that the pinned kernel side was loaded with.
func (t *Tracer) pinnedRefuser() Refuser {
	for _, r := range []Refuser{RefuserLSM, RefuserFmodRet} {
		if _, err := os.Stat(pinPath(filepath.Join(t.dir, t.pins), linkPin, r.program())); err == nil {
			return r
		}
	}
	t.features.Limits = append(t.features.Limits, "condemned members may fork: refused when the kernel side was loaded")
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
	lsms := activeLSMs()
	if !errors.Is(err, errIdle) || slices.Contains(strings.Split(lsms, ","), "bpf") {
		return reason(err)
	}
	return fmt.Sprintf("%v, as bpf is not among the security modules (%s)", err, lsms)
}

// tryRefusal attaches a program that refuses forks to this process alone, and forks: no
// program is run, whether the fork is refused or not.
func (k *kernel) tryRefusal(spec *ebpf.ProgramSpec) error {
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
