//go:build linux

package tracer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// raiseMemlock lifts the limit on locked memory, which maps and programs are
// charged to on kernels before 5.11. It does so on all kernels: which of them
// charges is not in the version, as distributions took the change over. Who may
// not raise it is told by the map that does not fit, if one does not.
//
// ebpf/rlimit asks the kernel which it is, but while packages are initialised:
// in every command, for the daemon alone, and it costs 0.2 ms there.
func raiseMemlock() error {
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("raise the memlock limit: %w", err)
	}
	return nil
}
