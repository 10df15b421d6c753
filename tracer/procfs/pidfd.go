//go:build linux

package procfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

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

// Inode is the inode number of the pidfds of a process of this host, 0 if it is not unique until the next boot (before
// kernel 6.9). The process may be another one by now.
func (fs FS) Inode(pid uint32) uint64 {
	if fs != "/proc" {
		return 0
	}
	fd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var of unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &of) != nil || of.Type != unix.PID_FS_MAGIC || unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// Nested reports whether the process of a pidfd is in another PID namespace than that of procfs. The kernel takes no
// lock of the process for the answer, so it does not wait. Minimum kernel 5.5.
func Nested(pidfd int) (bool, error) {
	// A kernel without PID namespaces does not write NSpid.
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return false, err
	}
	pid, all := uint32(0), []uint32(nil)
	for line := range strings.Lines(string(b)) {
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "Pid":
			pid = first(strings.Fields(value))
		case "NSpid":
			all = numbers(strings.Fields(value))
		}
	}
	if pid == 0 {
		return false, fmt.Errorf("read fdinfo of pidfd: %w", errMalformed)
	}
	return len(all) > 1, nil
}
