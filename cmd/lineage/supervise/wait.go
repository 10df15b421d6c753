//go:build linux

package supervise

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reapBatch is how many children are reaped before other events get a turn: orphans may
// die faster than they are reaped.
const reapBatch = 1024

// childInfo is the kernel's siginfo_t of 64-bit machines, as waitid fills it
// (include/uapi/asm-generic/siginfo.h).
type childInfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// exitedChild returns a child that has exited and leaves it a zombie: it is then waited
// for by PID, so that no wait takes another's exit code. It returns 0 if none has
// exited, and ECHILD if there is no child.
func exitedChild() (pid int, err error) {
	for {
		var info childInfo
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)),
			unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return int(info.pid), err
		}
	}
}
