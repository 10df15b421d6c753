//go:build linux

package tracer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// MinKernel is the oldest kernel that this version runs on.
const MinKernel = "5.10"

type Features struct {
	Level    int      // guarantee level, see docs/DESIGN.md
	Missing  []string // what is missing for the next level
	Limits   []string // optional programs that this kernel refused, with the reason; the level holds without them
	Degraded []string // what does not work as it should
	Refuses  Refuser  // what refuses condemned members their forks
	// RefusesSignals is what refuses guarded members their signals to others.
	RefusesSignals Refuser
	ABI            string // of the pins
	// SecondWriters: births and deaths are also counted by programs that cannot be
	// skipped, so that a miss of the first ones loses none.
	SecondWriters bool
}

// Check is one requirement, or useful option, of tracing.
type Check struct {
	Name     string
	OK       bool
	Required bool
	Detail   string // what was found
	Do       string // what to do about it, if not OK
}

type Report struct {
	Kernel  string // release
	Level   int    // 0: this host cannot be traced
	Missing []string
	Checks  []Check
	Err     error // the first required check that failed
}

// Probe reports what this host supports, without leaving anything behind. It loads the
// programs that Open would load, attaches none of them, and tries each optional kind of program
// separately, because kernels refuse some for reasons that no version number shows. The pins
// of a daemon are in dir, its socket is in run.
func Probe(dir, run string) Report {
	r := Report{Kernel: procfs.KernelRelease()}
	required := func(name string, err error) bool {
		c := Check{Name: name, OK: err == nil, Required: true}
		if u, ok := errors.AsType[*UnsupportedError](err); ok {
			c.Detail, c.Do = cmp.Or(u.Detail, u.What), u.Do
		} else if err != nil {
			c.Detail = err.Error()
		}
		r.Checks = append(r.Checks, c)
		if err != nil && r.Err == nil {
			r.Err = err
		}
		return err == nil
	}
	ok := required("root", checkRoot())
	ok = required("capabilities", checkCapabilities()) && ok
	ok = required("initial PID namespace", checkPIDNamespace()) && ok
	ok = required("BTF", checkBTF()) && ok
	bpffs := checkBPFFS(dir)
	if errors.Is(bpffs, ErrNoBPFFS) && mayMount(filepath.Dir(dir)) {
		bpffs = nil // a daemon mounts one at its start
	} else if bpffs == nil && ok {
		bpffs = procfs.TryWrite(dir)
	}
	ok = required("bpffs", bpffs) && ok
	ok = required("lockdown", checkLockdown()) && ok
	if !ok {
		return r
	}
	k, err := probeKernel()
	if !required("kernel "+MinKernel+" or later", err) {
		return r
	}
	_, err = k.orBaseline(func() error {
		t := k.tracer(dir)
		defer t.closeObjects()
		spec, err := t.tailored(k, DefaultRingSize)
		if err != nil {
			return err
		}
		return t.instantiate(k, spec)
	})
	ok = required("programs", err)
	if ok = required("run directory", procfs.TryWrite(run)) && ok; !ok {
		return r
	}
	r.Level, r.Missing = k.level()
	optional := func(name string, err error, gives string, found ...string) {
		c := Check{Name: name, OK: err == nil, Detail: strings.Join(found, "")}
		if err != nil {
			c.Detail, c.Do = reason(err), "without it: "+gives
		}
		r.Checks = append(r.Checks, c)
	}
	optional("tasks from BPF (bpf_iter_task_new, 6.7)", k.tasks,
		"other programs that scan all tasks for each request, level 2")
	optional(
		"signals from BPF (bpf_send_signal_task, 6.13)",
		k.signals,
		"sessions are ended from user space, and every system call of the host costs more while one is",
	)
	optional(
		"end from the exit hook (6.16)",
		k.exitHook(),
		"a root's end is carried out by the daemon, or at the next fork or exec on the host",
	)
	refuser, err := k.findRefuser()
	optional("condemned members may not fork", err, "at level 2 a fork bomb lives a little longer",
		"by ", refuser.String())
	optional(
		"guarded members may not signal others",
		err,
		"signals: session in the policy only records; lineage run --signals session (Linux 6.12) refuses",
		"by ",
		refuser.String(),
	)
	optional("self_protect", k.selfProtectable(), "members that are root may signal and trace the daemon")
	optional("fentry programs", k.fentry("kill_orphaned_pgrp"),
		"new parents come from snapshots, not from events")
	optional("initial time namespace", procfs.TimeNamespace(), "the times that a daemon here reports are wrong")
	return r
}

// Unrefused reports whether this kernel is known not to refuse signals of guarded members. It loads
// nothing else; root only knows.
func Unrefused() bool {
	if checkRoot() != nil {
		return false
	}
	k, err := probeKernel()
	if err != nil {
		return false
	}
	_, err = k.findRefuser()
	return err != nil
}

type kernel struct {
	spec     *btf.Spec
	types    *btf.Cache // of spec: parsing it again for each program would cost more than loading them
	realtime bool
	tasks    error // why BPF cannot find and walk tasks, nil: it can (6.9)
	signals  error // why it cannot signal another process, nil: it can (6.13)
}

var errNotAskedFor = errors.New("not requested")

func probeKernel() (*kernel, error) {
	types := btf.NewCache()
	spec, err := types.Kernel()
	if err != nil {
		return nil, fmt.Errorf("read kernel BTF: %w", err)
	}
	k := &kernel{spec: spec, types: types, realtime: procfs.Realtime()}
	if err := k.lacks("bpf_prog_test_run_raw_tp", MinKernel+"+"); err != nil {
		return nil, ErrKernelTooOld.with(procfs.KernelRelease() + " has no " + err.Error())
	}
	for _, name := range []string{"bpf_rcu_read_lock", "bpf_task_acquire",
		"bpf_task_from_pid", "bpf_iter_task_new"} {
		if k.tasks == nil {
			k.tasks = k.lacks(name, "6.7+")
		}
	}
	if k.tasks == nil {
		k.tasks = trustedArguments(spec)
	}
	if k.signals = k.lacks("bpf_send_signal_task", "6.13+"); k.signals == nil {
		k.signals = k.tasks
	}
	return k, nil
}

// trustedArguments returns why a global function cannot take a task, nil if it can:
// 6.9. Ubuntu 24.04 has 6.8.
func trustedArguments(spec *btf.Spec) error {
	var tags *btf.Enum
	if err := spec.TypeByName("btf_arg_tag", &tags); err == nil &&
		slices.ContainsFunc(tags.Values, func(v btf.EnumValue) bool { return v.Name == "ARG_TAG_TRUSTED" }) {
		return nil
	}
	return errors.New("arg:trusted: kernel 6.9+")
}

// lacks returns an error with the name of a type or function, and the kernels that have it; nil if this one does.
func (k *kernel) lacks(name, which string) error {
	if _, err := k.spec.AnyTypeByName(name); err != nil {
		return fmt.Errorf("%s: kernel %s", name, which)
	}
	return nil
}

// exitHook returns why the exit hook cannot end a session, nil if it can. The
// tracepoint must come before exit_mm, as it does since it has a second argument; a
// real-time kernel cannot signal there.
func (k *kernel) exitHook() error {
	var t *btf.Typedef
	if err := k.spec.TypeByName("btf_trace_sched_process_exit", &t); err != nil {
		return fmt.Errorf("look up the exit tracepoint: %w", err)
	}
	var proto *btf.FuncProto
	if ptr, ok := btf.As[*btf.Pointer](t); ok {
		proto, _ = btf.As[*btf.FuncProto](ptr.Target)
	}
	if proto == nil || len(proto.Params) < 3 {
		return errors.New("the exit hook runs after exit_mm before 6.16")
	}
	if k.realtime {
		return errors.New("PREEMPT_RT")
	}
	return nil
}

// level returns the guarantee level and what is missing for the next one.
func (k *kernel) level() (int, []string) {
	if err := k.signals; err != nil {
		return 2, []string{"level 3 lacks: " + err.Error()}
	}
	if err := k.exitHook(); err != nil {
		return 3, []string{"level 4 lacks: " + err.Error()}
	}
	return 4, nil
}

// trampolines returns why nothing may be attached to functions: 5.10 and 5.11 freed trampolines in use, and crashed.
// The function came with the fix.
func (k *kernel) trampolines() error {
	return k.lacks("__bpf_tramp_image_put_rcu", "5.12, or an older one with commit e21d2b92354b")
}

func (k *kernel) fentry(name string) error {
	if err := k.trampolines(); err != nil {
		return err
	}
	p, err := k.load(&ebpf.ProgramSpec{
		Type:         ebpf.Tracing,
		AttachType:   ebpf.AttachTraceFEntry,
		AttachTo:     name,
		License:      "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	return p.Close()
}

func (k *kernel) load(p *ebpf.ProgramSpec) (*ebpf.Program, error) {
	const name = "probe"
	spec := ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{name: p}}
	coll, err := ebpf.NewCollectionWithOptions(&spec, ebpf.CollectionOptions{Cache: k.types})
	if err != nil {
		return nil, err
	}
	return coll.DetachProgram(name), nil
}

// reason is err for a reader of doctor's output: the errno without a library's guess
// about it.
func reason(err error) string {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return "refused by this kernel: " + errno.Error()
	}
	return err.Error()
}

func checkRoot() error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	return nil
}

func checkPIDNamespace() error {
	if in, err := procfs.InInitialPIDNamespace(); err != nil || in {
		return err
	}
	return ErrPIDNamespace
}

func checkBTF() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return ErrNoBTF
	}
	return nil
}

func checkLockdown() error {
	b, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err == nil && bytes.Contains(b, []byte("[confidentiality]")) {
		return ErrLockdown
	}
	return nil
}
