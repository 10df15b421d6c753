//go:build linux

package procfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Ours reports whether the owner of a file or a process is root or the daemon's own user, which is root
// except in tests.
func Ours(owner uint32) bool { return owner == 0 || owner == uint32(os.Geteuid()) }

var errIrregular = errors.New("not a regular file")

// OpenRegular opens a file for reading that a user may have chosen. It opens only a regular file for which check returns no
// error, and until then asks for attributes only: the open of a device or of a FIFO changes something for others.
// Flags are added to the open of the path, such as O_NOFOLLOW.
func OpenRegular(path string, flags int, check func(*unix.Stat_t) error) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errIrregular
	}
	if err == nil {
		err = check(&st)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY, 0)
}
