//go:build linux

// Package shim is the process that becomes the command of lineage run and
// lineage init. It runs while the packages of its program are initialised, as
// early as what it imports allows, and main never: whoever links it can start
// itself as a shim. The rest of the program is what its start would cost, half
// of the time between fork and exec, and nothing may come between those.
package shim

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Arg is the first argument of a shim. The numbers of two pipes follow, on
// which it reads its [Order] and writes its [Refusal], and the command.
const Arg = "__shim"

func init() {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		os.Exit(becomeCommand(os.Args[2:]))
	}
}

// Order is what the shim waits for. Without one, it exits.
type Order struct {
	Session    string   `json:"session"` // "": none
	Token      string   `json:"token"`
	IgnoreQuit bool     `json:"ignore_quit"`
	Account    *Account `json:"account"` // nil: the caller's
}

// Refusal is what the shim says if it could not become the command. Nothing
// comes if it could: the pipe closes on exec.
type Refusal struct {
	Step  string     `json:"step"` // StepUser or another
	Errno unix.Errno `json:"errno"`
}

// Steps that may fail.
const (
	StepUser = "user"
	stepExec = "exec"
)

const failed = 125

// Account is whom the command runs as.
type Account struct {
	UID    int
	GID    int
	Groups []int
	Name   string
	Home   string
}

// become makes the calling process, all threads of it, one of the account's.
// Groups first: the last step gives up the right to the others.
func (a *Account) become() error {
	if err := unix.Setgroups(a.Groups); err != nil {
		return err
	}
	if err := unix.Setresgid(a.GID, a.GID, a.GID); err != nil {
		return err
	}
	return unix.Setresuid(a.UID, a.UID, a.UID)
}

// becomeCommand waits for its order, then execs; it returns if it could not.
//
// What the command inherits is what run inherited, but for the ignored signals
// that the Go runtime resets before main and nobody can know: all that HUP,
// INT, TSTP, TTIN and TTOU are not. QUIT goes with INT, see Order.
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
	// An end without an order: run gave up or died.
	if err := json.NewDecoder(pipes[0]).Decode(&o); err != nil {
		return failed
	}
	refuse := func(step string, err error) int {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.EINVAL
		}
		_ = json.NewEncoder(pipes[1]).Encode(Refusal{step, errno}) // run may be dead
		return failed
	}
	if o.Account != nil {
		if err := o.Account.become(); err != nil {
			return refuse(StepUser, err)
		}
	}
	if o.IgnoreQuit {
		signal.Ignore(unix.SIGQUIT)
	}
	env := os.Environ()
	if o.Session != "" {
		env = SetEnv(env, "LINEAGE_SESSION", o.Session)
		env = SetEnv(env, "LINEAGE_TOKEN", o.Token)
	}
	return refuse(stepExec, try(args[0], os.Getenv("PATH"), func(file string) error {
		err := syscall.Exec(file, args, env)
		if errors.Is(err, unix.ENOEXEC) {
			// A script without an interpreter line is the shell's, as in execvp(3).
			err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", file}, args[1:]...), env)
		}
		return err
	}))
}

// SetEnv gives env with name set to value, once.
func SetEnv(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if k, _, _ := strings.Cut(kv, "="); k != name {
			out = append(out, kv)
		}
	}
	return append(out, name+"="+value)
}
