//go:build linux

package tracer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// checkCapabilities checks that this process may load tracing programs. Root in a
// container usually may not, and the kernel only returns EPERM.
func checkCapabilities() error {
	effective, err := effectiveCapabilities()
	if err != nil {
		return err
	}
	if !canLoad(effective) {
		return ErrNoCapability
	}
	return nil
}

func effectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // 64 capabilities, the lower half first
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("get capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// canLoad is the kernel's own rule since 5.8: bpf_token_capable in
// kernel/bpf/syscall.c, earlier bpf_capable and perfmon_capable.
func canLoad(effective uint64) bool {
	has := func(c int) bool { return effective&(1<<c) != 0 }
	return has(unix.CAP_SYS_ADMIN) || has(unix.CAP_BPF) && has(unix.CAP_PERFMON)
}

// raiseMemlock lifts the limit on locked memory, which kernels before 5.11 charge for maps and programs. Distributions
// backported the change, so the version does not tell. If it fails, the map that does not fit reports the error.
// ebpf/rlimit costs 0.2 ms in every command, although only the daemon needs it.
func raiseMemlock() error {
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("raise the memlock limit: %w", err)
	}
	return nil
}
