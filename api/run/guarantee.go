//go:build linux

package run

import (
	"context"
	"encoding/json"
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
	// Group: the process group gets the signals. A process that leaves the group
	// survives, as every daemon does. The verdict of the report is unknown.
	Group Guarantee = iota + 1
	// Subreaper: "lineage init" finds the descendants in /proc. No daemon and no
	// privilege is needed.
	Subreaper
	// Daemon: a session that the daemon ends, level 2. It does not end while no
	// daemon runs.
	Daemon
	// Kernel: a session that BPF programs end, level 3 and 4.
	Kernel
)

func (g Guarantee) String() string {
	switch g {
	case Group:
		return "group"
	case Subreaper:
		return "subreaper"
	case Daemon:
		return "daemon"
	case Kernel:
		return "kernel"
	}
	return fmt.Sprintf("Guarantee(%d)", int(g))
}

// GuaranteeError says that the host offers less than [Cmd.Require] asks for.
// Nothing was started.
type GuaranteeError struct {
	Require, Have Guarantee
	Why           string // there is nothing better than Have
}

func (e *GuaranteeError) Error() string {
	return fmt.Sprintf("run: guarantee %v is required, this host has %v: %s", e.Require, e.Have, e.Why)
}

// How long the daemon and "lineage doctor" may take to answer. A daemon that hangs must
// not hang its callers: they fall back to the next best guarantee.
const (
	askTime    = 2 * time.Second
	doctorTime = 10 * time.Second
)

// kernelLevel is the lowest guarantee level at which the kernel ends sessions.
const kernelLevel = 3

// choose finds the best guarantee, the path of the lineage program, and why
// there is nothing better. It is decided before the command starts, because what
// was read from Stdin for one attempt would be lost for the next.
func (c *Cmd) choose() (g Guarantee, path, why string) {
	path, err := c.program()
	if err != nil {
		return Group, "", err.Error()
	}
	level, err := c.daemonLevel()
	if err != nil && os.Geteuid() == 0 && absent(err) {
		level, err = doctorLevel(path) // "lineage run" would start the daemon
	}
	switch {
	case err != nil:
		return Subreaper, path, err.Error()
	case level < kernelLevel:
		return Daemon, path, fmt.Sprintf("the kernel gives level %d", level)
	}
	return Kernel, path, ""
}

func (c *Cmd) program() (string, error) {
	name := c.Lineage
	if name == "" {
		name = "lineage"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path) // Dir is another directory
}

func (c *Cmd) socket() string {
	switch env := os.Getenv("LINEAGE_SOCKET"); {
	case c.Socket != "":
		return c.Socket
	case env != "":
		return env
	}
	return api.DefaultSocket
}

func (c *Cmd) daemonLevel() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	client, err := api.Dial(ctx, c.socket())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	v, err := client.Version(ctx)
	if err != nil {
		return 0, err
	}
	return v.Level, nil
}

// absent: the daemon does not run. One that hangs or refuses is another matter.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

func doctorLevel(path string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), doctorTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "doctor", "-o", "json").Output()
	var doctor api.Doctor
	if json.Unmarshal(out, &doctor) != nil { // its exit code says what the document says
		return 0, fmt.Errorf("lineage doctor: %w", err)
	}
	if !doctor.Supported {
		return 0, fmt.Errorf("lineage doctor: sessions are not supported here")
	}
	return doctor.Level, nil
}
