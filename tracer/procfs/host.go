//go:build linux

package procfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// InInitialPIDNamespace reports whether this process is in the first PID namespace, PROC_PID_INIT_INO.
func InInitialPIDNamespace() (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return false, fmt.Errorf("stat /proc/self/ns/pid: %w", err)
	}
	return st.Ino == 4026531836, nil
}

// TimeNamespace returns by how much the clocks of this process differ from the kernel's.
func TimeNamespace() error {
	offsets, _ := os.ReadFile("/proc/self/timens_offsets") // none before Linux 5.6
	if f := strings.Fields(string(offsets)); len(f) == 6 && (f[1] != "0" || f[4] != "0") {
		return fmt.Errorf("in a time namespace: monotonic is off by %s s, boottime by %s s", f[1], f[4])
	}
	return nil
}

// KernelRelease is the release from uname(2), "unknown" if that fails.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// Realtime reports whether the kernel is PREEMPT_RT, as shown in its version
// (init/Makefile). Linux 6.18 with it has no /sys/kernel/realtime.
func Realtime() bool {
	var u unix.Utsname
	return unix.Uname(&u) == nil && isRealtime(unix.ByteSliceToString(u.Version[:]))
}

func isRealtime(version string) bool {
	return slices.Contains(strings.Fields(version), "PREEMPT_RT")
}

// ActiveLSMs are the security modules of the running kernel, empty where
// securityfs is not mounted.
func ActiveLSMs() string {
	b, err := os.ReadFile("/sys/kernel/security/lsm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func EffectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // 64 capabilities, the lower half first
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("get capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// MayLoadBPF is the kernel's own rule since 5.8: bpf_token_capable in
// kernel/bpf/syscall.c, earlier bpf_capable and perfmon_capable.
func MayLoadBPF(effective uint64) bool {
	has := func(c int) bool { return effective&(1<<c) != 0 }
	return has(unix.CAP_SYS_ADMIN) || has(unix.CAP_BPF) && has(unix.CAP_PERFMON)
}

// TryWrite makes a directory in dir, or, if that is still to be made, beside it, and removes it.
func TryWrite(dir string) error {
	made, err := os.MkdirTemp(dir, "doctor-")
	if errors.Is(err, os.ErrNotExist) {
		made, err = os.MkdirTemp(filepath.Dir(dir), "doctor-")
	}
	if err != nil {
		return err
	}
	return os.Remove(made)
}

// PIDMax is the number of PIDs, one more than the highest.
func PIDMax() (uint32, error) {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0, fmt.Errorf("read pid_max: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read pid_max: %w", err)
	}
	return uint32(n), nil
}
