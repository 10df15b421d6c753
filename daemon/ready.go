//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readyFD names, in the environment of a daemon that a command starts, the
// pipe on which it says that it serves, or why not.
const readyFD = "LINEAGE_READY_FD"

const readyWord = "ready"

// readiness is the daemon's end of the pipe; nil if nobody waits for it.
type readiness struct{ file *os.File }

// inheritedPipe gives the pipe, and closes whatever else the process that
// started us left open. All that Go opens is close-on-exec, so a descriptor
// that is not was inherited.
func inheritedPipe() *readiness {
	text, ok := os.LookupEnv(readyFD)
	if !ok {
		return nil
	}
	os.Unsetenv(readyFD)
	fd, err := strconv.Atoi(text)
	if err != nil || fd <= 2 {
		return nil
	}
	unix.CloseOnExec(fd)
	entries, err := os.ReadDir("/proc/self/fd")
	if err == nil {
		for _, e := range entries {
			n, err := strconv.Atoi(e.Name())
			if err != nil || n <= 2 || n == fd {
				continue
			}
			if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				unix.Close(n)
			}
		}
	}
	return &readiness{os.NewFile(uintptr(fd), "ready")}
}

// tell says once that the daemon serves, or what kept it from it.
func (r *readiness) tell(err error) {
	if r == nil || r.file == nil {
		return
	}
	text := readyWord
	if err != nil {
		text = err.Error()
	}
	io.WriteString(r.file, text)
	r.file.Close()
	r.file = nil
}

// errSilent: the daemon died before it said anything.
var errSilent = errors.New("it died at once")

// heard reads what a daemon that was started says.
func heard(pipe io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(pipe, 4096))
	switch text := strings.TrimSpace(string(b)); {
	case err != nil:
		return fmt.Errorf("wait for the daemon: %w", err)
	case text == readyWord:
		return nil
	case text == "":
		return errSilent
	default:
		return errors.New(text)
	}
}
