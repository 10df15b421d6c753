//go:build linux

// Package shim is the process that becomes the command of lineage run and lineage init.
// It runs while the packages of its program are initialised, as early as its imports
// allow, and main never runs: any program that links it can start itself as a shim.
// Starting the rest of the program would cost half of the time between fork and exec,
// and could do something in between.
package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
	"github.com/lineage-ebpf/lineage/lineage"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == lineage.Shim {
		os.Exit(becomeCommand(os.Args[2:]))
	}
}

// Order is what the shim waits for. Without one, it exits.
type Order struct {
	Session string   `json:"session"` // "": none
	Token   string   `json:"token"`
	Ignored uint64   `json:"ignored"` // signals, as in urgent.Ignored
	Blocked uint64   `json:"blocked"`
	Confine bool     `json:"confine"` // its signals to the session
	Account *Account `json:"account"` // nil: the caller
}

// Refusal is the shim's message if it could not become the command. If it could, there
// is no message: the pipe closes on exec.
type Refusal struct {
	Step  string     `json:"step"` // StepUser, StepConfine, or another step
	Errno unix.Errno `json:"errno"`
}

// Steps that may fail.
const (
	StepUser    = "user"
	StepConfine = "confine"
	stepExec    = "exec"
)

const failed = 125

type Account struct {
	UID    int
	GID    int
	Groups []int
	Name   string
	Home   string
}

// become changes the calling process, with all its threads, to the account. Groups
// first: the last step gives up the right to do the others.
func (a *Account) become() error {
	if err := unix.Setgroups(a.Groups); err != nil {
		return err
	}
	if err := unix.Setresgid(a.GID, a.GID, a.GID); err != nil {
		return err
	}
	return unix.Setresuid(a.UID, a.UID, a.UID)
}

// Ignore is the handler of a signal that is ignored, SIG_IGN; SIG_DFL is 0.
const Ignore = 1

// Sigaction is the kernel's struct sigaction of amd64 and arm64.
type Sigaction struct {
	Handler         uintptr
	flags, restorer uintptr
	mask            uint64
}

// Action is the action of a signal, which becomes another one unless that is nil.
func Action(sig unix.Signal, to *Sigaction) (before Sigaction) {
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	return before
}

// becomeCommand waits for its order, then execs; it returns if it could not.
//
// The command inherits what run inherited. Go's runtime has changed signals, see package urgent.
func becomeCommand(args []string) int {
	if len(args) < 3 {
		return failed
	}
	var pipes [2]*os.File
	for i := range pipes {
		fd, err := strconv.Atoi(args[i])
		if err != nil {
			return failed
		}
		unix.CloseOnExec(fd)
		pipes[i] = os.NewFile(uintptr(fd), "run")
	}
	args = args[2:]
	var o Order
	// The end of the pipe without an order: run gave up or died.
	if err := json.NewDecoder(pipes[0]).Decode(&o); err != nil {
		return failed
	}
	refuse := func(step string, err error) int {
		errno, _ := errors.AsType[unix.Errno](err)
		_ = json.NewEncoder(pipes[1]).Encode(Refusal{step, cmp.Or(errno, unix.EINVAL)}) // run may be dead
		return failed
	}
	// Before the account: root can do it without no_new_privs, so that sudo works in the session. The
	// thread is the one that execs, as packages are initialised on one thread.
	if o.Confine {
		if err := confine(); err != nil {
			return refuse(StepConfine, err)
		}
	}
	if o.Account != nil {
		if err := o.Account.become(); err != nil {
			return refuse(StepUser, err)
		}
	}
	for sig := range unix.Signal(64) { // package signal takes not all
		Action(sig+1, &Sigaction{Handler: uintptr(o.Ignored >> sig & 1)})
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{Val: [16]uint64{o.Blocked}}, nil)
	for fd := range 3 {
		if urgent.Closed(fd) {
			unix.CloseOnExec(fd) // the runtime's /dev/null
		}
	}
	env := os.Environ()
	if o.Session != "" {
		env = SetEnv(env, "LINEAGE_SESSION", o.Session)
		env = SetEnv(env, "LINEAGE_TOKEN", o.Token)
	}
	return refuse(stepExec, try(args[0], os.Getenv("PATH"), func(file string) error {
		err := syscall.Exec(file, args, env)
		if errors.Is(err, unix.ENOEXEC) {
			// The shell runs a script without an interpreter line, as in execvp(3).
			err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", file}, args[1:]...), env)
		}
		return err
	}))
}

func SetEnv(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return k == name
	})
	return append(env, name+"="+value)
}
