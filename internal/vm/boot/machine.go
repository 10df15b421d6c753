//go:build linux

package boot

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Machine is a virtual machine to boot.
type Machine struct {
	QEMU     string // program
	Arch     string // as Go calls it: arm64, or "" for amd64
	KVM      bool   // otherwise everything is emulated
	Kernel   string // vmlinuz
	CPUs     int
	MemoryMB int
	Append   string // added to the kernel's command line
	Timeout  time.Duration
}

// Result is the result of a boot.
type Result struct {
	Jobs    []Job
	Console []byte
	Took    time.Duration
	CPU     time.Duration // of QEMU: about what Took would be on an idle host
}

// LSM is the kernel's list of security modules including bpf: without it an LSM program
// attaches but never runs.
const LSM = "lsm=landlock,lockdown,yama,integrity,apparmor,bpf"

// commandLine shows warnings on the console, and powers the machine off at a panic. A slow emulated CPU is no stall. On
// a busy host the TSC's calibration is wrong by factors: the HPET needs none.
const commandLine = "loglevel=5 panic=-1 oops=panic rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60 "

// board is how a machine of an architecture is emulated. The first serial port is the
// kernel's, the second one is defined in package guest.
type board struct{ machine, append string }

var boards = map[string]board{
	"":      {"q35", "console=ttyS0 tsc=unstable clocksource=hpet "},
	"arm64": {"virt", "console=ttyAMA0 "},
}

// Run boots the machine with an initramfs and waits until it ends. With ErrUnfinished
// the result holds what there is.
func (m *Machine) Run(ctx context.Context, initramfs []byte) (*Result, error) {
	dir, err := os.MkdirTemp("", "lngtest-vm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	initrd, console := filepath.Join(dir, "initrd"), filepath.Join(dir, "console")
	output := filepath.Join(dir, "output")
	if err := os.WriteFile(initrd, initramfs, 0o600); err != nil {
		return nil, err
	}
	cpu, accel := "max", "tcg,thread=multi"
	if m.KVM {
		cpu, accel = "host", "kvm"
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-M", boards[m.Arch].machine, "-accel", accel, "-cpu", cpu,
		"-smp", strconv.Itoa(m.CPUs), "-m", fmt.Sprintf("%dM", m.MemoryMB),
		"-kernel", m.Kernel, "-initrd", initrd, "-append", boards[m.Arch].append + commandLine + m.Append,
		"-serial", "file:" + console, "-serial", "file:" + output,
	}
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	qemu := exec.CommandContext(ctx, m.QEMU, args...)
	var printed bytes.Buffer
	qemu.Stdout, qemu.Stderr = &printed, &printed
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // its death would be taken for ours
	defer runtime.UnlockOSThread()
	began := time.Now()
	if err := qemu.Run(); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("run %s: %w: %s", m.QEMU, err, bytes.TrimSpace(printed.Bytes()))
	}
	r := &Result{Took: time.Since(began), CPU: qemu.ProcessState.UserTime() + qemu.ProcessState.SystemTime()}
	out, err := os.ReadFile(output)
	if err != nil {
		return nil, err
	}
	if r.Console, err = os.ReadFile(console); err != nil {
		return nil, err
	}
	r.Console = bytes.ReplaceAll(r.Console, []byte("\r"), nil)
	if r.Jobs, err = parseOutput(out); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: out of time after %v", err, r.Took.Round(time.Second))
	}
	return r, err
}
