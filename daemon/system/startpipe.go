//go:build linux

package system

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readyFD is the environment variable that names, for a daemon that a command
// starts, the pipe on which it reports that it serves, or why not.
const readyFD = "LINEAGE_READY_FD"

const readyWord = "ready"

// StartPipe is the daemon's end of the pipe to the command that started it; nil if
// none did.
type StartPipe struct{ file *os.File }

// InheritedPipe gives the pipe, and closes all other descriptors that the process
// was started with. Go opens everything close-on-exec, so a descriptor that is not
// was inherited.
func InheritedPipe() *StartPipe {
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
	return &StartPipe{os.NewFile(uintptr(fd), "ready")}
}

// Report says once that the daemon serves, or why it does not.
func (p *StartPipe) Report(err error) {
	if p == nil || p.file == nil {
		return
	}
	text := readyWord
	if err != nil {
		text = err.Error()
	}
	io.WriteString(p.file, text)
	p.file.Close()
	p.file = nil
}

// ErrDied means that the daemon died before it reported anything.
var ErrDied = errors.New("it exited immediately")

// awaitReport reads what the started daemon reports.
func awaitReport(pipe io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(pipe, 4096))
	switch text := strings.TrimSpace(string(b)); {
	case err != nil:
		return fmt.Errorf("wait for the daemon: %w", err)
	case text == readyWord:
		return nil
	case text == "":
		return ErrDied
	default:
		return errors.New(text)
	}
}
