//go:build linux

package tracer

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// checkCapabilities checks that this process may load tracing programs. Root in a
// container usually may not, and the kernel only returns EPERM.
func checkCapabilities() error {
	effective, err := procfs.EffectiveCapabilities()
	if err != nil {
		return err
	}
	if !procfs.MayLoadBPF(effective) {
		return ErrNoCapability
	}
	return nil
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
