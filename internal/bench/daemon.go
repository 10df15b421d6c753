//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

// A daemon is a lineage on a socket of its own, with the history on.
type daemon struct {
	api.Client
	dir, socket string
	cmd         *exec.Cmd
}

// startDaemon starts one of that binary and waits until it answers and its self-check is done.
func startDaemon(ctx context.Context, binary string) (d *daemon, err error) {
	dir, err := os.MkdirTemp("", "lngtest-bench-")
	if err != nil {
		return nil, err
	}
	var log bytes.Buffer
	d = &daemon{dir: dir, socket: filepath.Join(dir, "l.sock")}
	d.cmd = exec.Command(binary, "daemon", "--socket", d.socket)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGTERM} // as a service manager does
	d.cmd.Stderr = &log
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w:\n%s", errors.Join(err, d.close()), log.Bytes())
			d = nil
		}
	}()
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	return d, until(ctx, "daemon that has checked itself", func() (err error) {
		if d.Client == nil {
			if d.Client, err = api.Dial(ctx, d.socket); err != nil {
				return err
			}
		}
		st, err := d.Status(ctx)
		if err == nil && st.SelfCheck == nil {
			err = errors.New("no self-check yet")
		}
		return err
	})
}

// until polls for what no event announces.
func until(ctx context.Context, what string, done func() error) (err error) {
	for end := time.Now().Add(time.Minute); ctx.Err() == nil &&
		time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err = done(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no %s within a minute: %w", what, errors.Join(err, ctx.Err()))
}

// close stops it and unloads its kernel side.
func (d *daemon) close() error {
	var errs []error
	if d.Client != nil {
		errs = append(errs, d.Client.Close())
	}
	if d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(unix.SIGTERM)
		_ = d.cmd.Wait()
	}
	unload := exec.Command(d.cmd.Path, "daemon", "--socket", d.socket, "--unload", "--force")
	if out, err := unload.CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("unload: %w: %s", err, out))
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// knows waits until the daemon's picture has all of them.
func (d *daemon) knows(ctx context.Context, id string, n int) error {
	return until(ctx, "picture of all", func() error {
		t, err := d.Tree(ctx, id, "")
		if err == nil && len(t.Nodes) != n+1 {
			err = fmt.Errorf("session %s: %d processes, not %d", id, len(t.Nodes), n+1)
		}
		return err
	})
}

// adopt makes the worker, with its descendants, a session.
func (d *daemon) adopt(ctx context.Context, w *worker) (*api.Session, error) {
	return d.Create(ctx, api.NewSession{Root: api.Ref{PID: w.pid()}, Adopt: true, GraceMS: new(int64)})
}

// end ends a session and waits for its verdict.
func (d *daemon) end(ctx context.Context, id string) error {
	if _, err := d.End(ctx, id, api.EndRequest{Now: true}); err != nil {
		return err
	}
	report, err := d.Report(ctx, id, time.Minute)
	if err == nil && report.Verdict != api.VerdictClean {
		err = fmt.Errorf("end of %s: verdict %q", id, report.Verdict)
	}
	return err
}

// cpu is the CPU time that it has used.
func (d *daemon) cpu() (time.Duration, error) {
	var clock unix.Timespec
	// CLOCK_PROCESS_CPUTIME_ID of another process, see clock_getcpuclockid(3).
	id := ^int32(d.cmd.Process.Pid)<<3 | 2
	if err := unix.ClockGettime(id, &clock); err != nil {
		return 0, err
	}
	return time.Duration(clock.Nano()), nil
}
