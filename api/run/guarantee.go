//go:build linux

package run

import (
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

// Guarantee says what ends the processes that a command started. A greater one
// is stronger.
type Guarantee int

// The guarantees.
const (
	// Subreaper: "lineage init" finds the descendants in /proc. No daemon and no
	// privilege is needed.
	Subreaper Guarantee = iota + 1
	// Session: a session of the daemon, whose document has the guarantee level.
	Session
)

func (g Guarantee) String() string {
	switch g {
	case Subreaper:
		return "subreaper"
	case Session:
		return "session"
	}
	return fmt.Sprintf("Guarantee(%d)", int(g))
}

// ErrNotInstalled is the error of Start on a host without the lineage program.
var ErrNotInstalled = errors.New(
	"run: the lineage program is not installed: install the package lineage (https://github.com/lineage-ebpf/lineage), or name its path",
)

// GuaranteeError says that the host offers less than [Cmd.Require] asks for.
// Nothing was started.
type GuaranteeError struct {
	Require, Have Guarantee
	Why           error // there is nothing better than Have
}

func (e *GuaranteeError) Error() string {
	return fmt.Sprintf("run: guarantee %v is required, this host has %v: %v", e.Require, e.Have, e.Why)
}

func (e *GuaranteeError) Unwrap() error { return e.Why }

// How long the daemon and "lineage doctor" may take to answer. A daemon that hangs must
// not hang its callers: the command is run by "lineage init".
const (
	askTime    = 2 * time.Second
	doctorTime = 10 * time.Second
)

func (c *Cmd) program() (string, error) {
	name := cmp.Or(c.Lineage, "lineage")
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %v", ErrNotInstalled, err) //nolint:errorlint // exec.ErrNotFound would be the command's
	}
	return filepath.Abs(path) // Dir is another directory
}

// noSession is the reason why "lineage run" could not make a session; nil: it can. It is
// decided before the command starts, because what was read from Stdin for one attempt would
// be lost for the next.
func (c *Cmd) noSession(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	client, err := api.Dial(ctx, c.socket())
	if err == nil {
		defer client.Close()
		_, err = client.Version(ctx)
	}
	if os.Geteuid() != 0 || !absent(err) {
		return err
	}
	ctx, cancel = context.WithTimeout(context.Background(), doctorTime)
	defer cancel()
	// "lineage run" would start the daemon.
	if err := exec.CommandContext(ctx, path, "doctor").Run(); err != nil {
		return fmt.Errorf("lineage doctor: no sessions here: %w", err)
	}
	return nil
}

func (c *Cmd) socket() string {
	return cmp.Or(c.Socket, os.Getenv("LINEAGE_SOCKET"), api.DefaultSocket)
}

// absent: the daemon does not run. One that hangs or refuses is another matter.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
