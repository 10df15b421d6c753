//go:build linux

package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// defaultWaitDelay bounds the wait for the end of Stdout and Stderr when no
// process of the command is left: a process outside the session may hold them.
const defaultWaitDelay = 5 * time.Second

// ErrLeft is the error of Wait if processes are alive that could not be ended.
// The report names them.
var ErrLeft = errors.New("run: processes of the command are still alive")

// Cmd is a command with everything that it will start. The fields and methods
// of exec.Cmd mean what they mean there, but for these:
//
//   - Process is "lineage run" or "lineage init", which runs the command and
//     forwards signals to it.
//   - The command's exit code is that of ProcessState; 128 + N says that it died
//     of signal N.
//   - argv[0] of the command is Path, not Args[0]. Env gets LINEAGE_SESSION.
//   - Cancel must be nil. WaitDelay begins when the session is empty (default 5 s).
type Cmd struct {
	*exec.Cmd

	Name    string        // of the session; may be empty
	Grace   time.Duration // from SIGTERM to SIGKILL; 0: the daemon's default, negative: SIGKILL at once
	Require Guarantee     // Start fails if the host offers less; 0: accept any
	Lineage string        // path of the lineage program; "": found in PATH
	Socket  string        // of the daemon; "": LINEAGE_SOCKET, or api.DefaultSocket

	ctx       context.Context
	guarantee Guarantee
	receipt   string // directory of the receipt
	started   time.Time
	exited    chan struct{} // closed when Process was waited for
	unwatch   func() bool   // false: the context was done first
	ended     chan struct{} // closed when the end that the context asked for has begun
	report    *api.Report
}

// Command is exec.Command.
func Command(name string, arg ...string) *Cmd {
	return CommandContext(context.Background(), name, arg...)
}

// CommandContext is Command with a context: when it is done before the command
// has exited, the session ends as [Cmd.End] ends it.
func CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	if ctx == nil {
		panic("nil Context")
	}
	return &Cmd{Cmd: exec.Command(name, arg...), ctx: ctx}
}

// Start starts the command and does not wait for it. Its error is [ErrNotInstalled]
// without the lineage program, and a [GuaranteeError] if the host offers less than Require.
func (c *Cmd) Start() error {
	switch {
	case c.exited != nil:
		return errors.New("run: already started")
	case c.Cancel != nil:
		return errors.New("run: Cancel is set; the end of the context ends the session")
	case c.Err != nil:
		return c.Err
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	}
	path, err := c.program()
	if err != nil {
		return err
	}
	have, why := Session, c.noSession(path)
	if why != nil {
		have = Subreaper
	}
	if have < c.Require {
		return &GuaranteeError{c.Require, have, why}
	}
	c.guarantee = have
	c.WaitDelay = cmp.Or(c.WaitDelay, defaultWaitDelay)
	if err := c.wrap(path); err != nil {
		return err
	}
	c.started = time.Now()
	if err := c.Cmd.Start(); err != nil {
		os.RemoveAll(c.receipt)
		return err
	}
	c.exited, c.ended = make(chan struct{}), make(chan struct{})
	c.unwatch = context.AfterFunc(c.ctx, func() {
		defer close(c.ended)
		c.end()
	})
	return nil
}

// wrap makes lineage the program that is started, with the command as its
// arguments.
func (c *Cmd) wrap(path string) error {
	if err := c.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lineage-run-")
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	c.receipt = dir
	if a := c.SysProcAttr; a != nil && a.Credential != nil { // the user that writes there
		if err := os.Chown(dir, int(a.Credential.Uid), int(a.Credential.Gid)); err != nil {
			os.RemoveAll(dir)
			return fmt.Errorf("run: %w", err)
		}
	}
	args := []string{path, "init"}
	if c.guarantee == Session {
		args[1] = "run"
		if c.Name != "" {
			args = append(args, "--name="+c.Name)
		}
	}
	if c.Grace != 0 {
		args = append(args, "--grace="+max(c.Grace, 0).String())
	}
	args = append(args, "--quiet", "--report="+c.receiptFile(), "--", c.Path)
	if len(c.Args) > 0 {
		args = append(args, c.Args[1:]...)
	}
	c.Path, c.Args = path, args
	if c.Socket != "" {
		c.Env = append(c.Environ(), "LINEAGE_SOCKET="+c.Socket)
	}
	return nil
}

// check returns what exec would say of the command: the program that is started is lineage.
func (c *Cmd) check() error {
	path := c.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	if a := c.SysProcAttr; a != nil && a.Chroot != "" {
		return nil // it is another file there
	}
	const executable = 1
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		err = syscall.EACCES
	case err == nil:
		err = syscall.Access(path, executable)
	default:
		err = errors.Unwrap(err)
	}
	if err != nil {
		return &fs.PathError{Op: "fork/exec", Path: c.Path, Err: err}
	}
	return nil
}

// Wait waits until the command has exited and nothing that it started is alive.
// Its errors are those of exec.Cmd.Wait, and [ErrLeft].
func (c *Cmd) Wait() error {
	if c.exited == nil {
		return errors.New("run: not started")
	}
	err := c.Cmd.Wait()
	close(c.exited)
	cancelled := !c.unwatch()
	if cancelled {
		<-c.ended
	}
	c.report = c.readReport()
	os.RemoveAll(c.receipt)
	switch exit, ok := errors.AsType[*exec.ExitError](err); {
	case ok && c.report == nil && exit.ExitCode() >= exitFailed && exit.ExitCode() <= exitNotFound:
		return fmt.Errorf("run: lineage did not run the command, or could not write its receipt: %w", err)
	case err == nil && cancelled:
		return c.ctx.Err()
	case err == nil && c.report != nil && c.report.Verdict == api.VerdictLeft:
		return ErrLeft
	}
	return err
}

// The exit codes with which lineage says that it could not run the command, or,
// exitFailed, that it could not write the receipt.
const (
	exitFailed   = 125
	exitNotFound = 127
)

// Run is Start and Wait.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. The Stderr of an
// *exec.ExitError has the end of its standard error, unless c.Stderr is set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("run: Stdout already set")
	}
	var out bytes.Buffer
	var last tail
	c.Stdout = &out
	if c.Stderr == nil {
		c.Stderr = &last
	}
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		exit.Stderr = last
	}
	return out.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and error.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("run: Stdout or Stderr already set")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// Guarantee says what ends the processes of the command; 0 before Start.
func (c *Cmd) Guarantee() Guarantee { return c.guarantee }

// Report is the receipt: how each process ended. It is nil before Wait has
// returned, and if lineage gave none.
func (c *Cmd) Report() *api.Report { return c.report }

// tailSize is how much of the standard error an ExitError gets.
const tailSize = 64 << 10

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(len(*t)-tailSize, 0):]
	return len(b), nil
}
