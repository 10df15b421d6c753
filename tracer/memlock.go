//go:build linux

package tracer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// raiseMemlock lifts the limit on locked memory, which maps and programs are charged to
// on kernels before 5.11. It does so on all kernels: the version does not show which of
// them charge, because distributions backported the change. If raising is not
// permitted, the map that does not fit reports the error.
//
// ebpf/rlimit finds out which kernel it is, but during package initialisation: in every
// command, although only the daemon needs it, and it costs 0.2 ms there.
func raiseMemlock() error {
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("raise the memlock limit: %w", err)
	}
	return nil
}
