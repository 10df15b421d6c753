package procfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Exited reports that the process of a pidfd is dead, or that the kernel does not answer.
// Minimum kernel 5.3, see pidfd_open(2).
func Exited(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	for errors.Is(err, unix.EINTR) { // by a signal of Go's scheduler, although it does not wait
		n, err = unix.Poll(fds, 0)
	}
	return err != nil || n != 0
}
