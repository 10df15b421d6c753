//go:build linux

package supervise

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
	"github.com/lineage-ebpf/lineage/lineage"
)

// child is the shim, as run sees it.
type child struct {
	pid     int
	verb    string   // ours, for messages
	name    string   // of the command
	orders  *os.File // closed without an order, the shim exits
	refusal *os.File
}

// startShim forks the process that will become the command. It leads its own process
// group and has every descriptor that we inherited. So the two pipes get numbers that
// are free, not 3 and 4, which may be the command's.
func startShim(o *Options) (*child, error) {
	orders, refusals := make([]int, 2), make([]int, 2)
	if err := unix.Pipe2(orders, unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("%s: make pipe: %w", o.verb, err)
	}
	s := &child{verb: o.verb, name: o.Args[0], orders: os.NewFile(uintptr(orders[1]), "orders")}
	defer unix.Close(orders[0])
	if err := unix.Pipe2(refusals, unix.O_CLOEXEC); err != nil {
		s.orders.Close()
		return nil, fmt.Errorf("%s: make pipe: %w", o.verb, err)
	}
	s.refusal = os.NewFile(uintptr(refusals[0]), "refusal")
	defer unix.Close(refusals[1])

	files, err := stdio(o.Stdin, o.Stdout, o.Stderr)
	if err == nil {
		// Nothing else in this process forks, so no other child inherits them.
		for _, fd := range []int{orders[0], refusals[1]} {
			unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		}
		argv := append([]string{"lineage", lineage.Shim, strconv.Itoa(orders[0]),
			strconv.Itoa(refusals[1])}, o.Args...)
		s.pid, err = syscall.ForkExec(program(), argv, &syscall.ProcAttr{
			Env:   o.Env,
			Files: files,
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	}
	if err != nil {
		s.close()
		if errors.Is(err, unix.E2BIG) {
			return nil, execFailure(s.verb, s.name, unix.E2BIG)
		}
		return nil, fmt.Errorf("%s: start shim: %w", o.verb, err)
	}
	return s, nil
}

// program is the path of what this process runs, by which a session's root is called until its command
// runs; /proc/self/exe if another file is there now, which may know other orders.
func program() string {
	const self = "/proc/self/exe"
	path, _ := os.Executable()
	now, err := os.Stat(path)
	if mine, bad := os.Stat(self); err != nil || bad != nil || !os.SameFile(now, mine) {
		return self
	}
	return path
}

// stdio returns the descriptors. File.Fd may change their file status flags, which
// other processes share; stdio does not.
func stdio(files ...*os.File) ([]uintptr, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = ^uintptr(0)
		if f == nil {
			continue
		}
		c, err := f.SyscallConn()
		if err != nil {
			return nil, err
		}
		if err := c.Control(func(fd uintptr) { fds[i] = fd }); err != nil {
			return nil, err
		}
	}
	return fds, nil
}

// release lets the shim become the command and returns when it has, or the error if it
// could not. A killed shim is not an error: its status says so.
func (s *child) release(o shim.Order) error {
	defer s.close()
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("%s: encode order: %w", s.verb, err)
	}
	// A failed write means that the shim is dead.
	_, _ = s.orders.Write(b)
	s.orders.Close()
	reply, err := io.ReadAll(s.refusal)
	if err != nil {
		return fmt.Errorf("%s: read from shim: %w", s.verb, err)
	}
	if len(reply) == 0 {
		return nil
	}
	var no shim.Refusal
	if err := json.Unmarshal(reply, &no); err != nil {
		return fmt.Errorf("%s: decode refusal: %w", s.verb, err)
	}
	switch no.Step {
	case shim.StepUser:
		return fmt.Errorf("%s: become user %s: %w", s.verb, o.Account.Name, no.Errno)
	case shim.StepConfine:
		return fmt.Errorf("%s: --signals session: %w", s.verb, no.Errno)
	}
	return execFailure(s.verb, s.name, no.Errno)
}

// abort ends a shim that has not become the command, and reaps it.
func (s *child) abort() {
	s.close()
	unix.Kill(s.pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(s.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (s *child) close() {
	s.orders.Close()
	s.refusal.Close()
}

// execFailure is the failure to execute name, with env(1)'s exit codes.
func execFailure(verb, name string, err error) error {
	code := exitCannot
	if errors.Is(err, unix.ENOENT) {
		code = exitNotFound
	}
	return &failure{code, fmt.Errorf("%s: %s: %w", verb, cmp.Or(name, `""`), err)}
}
