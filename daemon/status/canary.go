//go:build linux

package status

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Canary is a running tree, as its starter sees it.
type Canary struct {
	root  *exec.Cmd
	leash io.WriteCloser // the standard input of the whole tree: its end ends the tree
	lines io.ReadCloser  // that the tree prints
}

// StartCanary starts the root of a tree, which waits for Release before it does anything.
// command is a command line to which arguments are appended that it passes to [CanaryMain].
// The root gets SIGKILL when the calling thread ends: hold it with
// [runtime.LockOSThread] until Close.
func StartCanary(command []string) (*Canary, error) {
	c := &Canary{root: exec.Command(command[0], append(command[1:len(command):len(command)], stageRoot)...)}
	c.root.Dir, c.root.Env = "/", []string{}
	c.root.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var err error
	if c.leash, err = c.root.StdinPipe(); err == nil {
		c.lines, err = c.root.StdoutPipe()
	}
	if err == nil {
		err = c.root.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start canary: %w", err)
	}
	return c, nil
}

// PID is the root's. It is not reused before Close.
func (c *Canary) PID() int { return c.root.Process.Pid }

func (c *Canary) Release() error {
	if _, err := c.leash.Write([]byte{1}); err != nil {
		return fmt.Errorf("release canary: %w", err)
	}
	return nil
}

// Family waits until the tree has grown. The orphan was started by the middle process,
// which the root started in a POSIX session of its own and which is dead; the orphan
// has another parent now and has execed another program.
func (c *Canary) Family(ctx context.Context) (middle, orphan int, err error) {
	stop := context.AfterFunc(ctx, func() { c.lines.Close() })
	defer stop()
	in := bufio.NewReader(c.lines)
	for _, line := range []struct {
		format string
		pid    *int
	}{{middleLine, &middle}, {orphanLine, &orphan}} {
		text, err := in.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscanf(text, line.format, line.pid)
		}
		if errors.Is(err, os.ErrClosed) {
			err = ctx.Err()
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read from canary: %w", err)
		}
	}
	return middle, orphan, nil
}

// Close closes the standard input of the tree: what is left of it exits.
func (c *Canary) Close() {
	c.leash.Close()
	c.lines.Close()
	// It may be dead, and how it ended does not matter.
	_ = c.root.Process.Kill()
	_ = c.root.Wait()
}
