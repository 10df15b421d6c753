//go:build linux

package main

import (
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

// A daemon is bin/lineage on a socket of its own, with the history on.
type daemon struct {
	api.Client
	dir, socket string
	cmd         *exec.Cmd
}

// startDaemon starts one of that binary and waits until it answers and its self-check is done.
func startDaemon(ctx context.Context, binary string, flags ...string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "lngtest-bench-")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, socket: filepath.Join(dir, "l.sock")}
	if err := d.run(ctx, binary, flags...); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// run starts it and waits until it answers and its self-check is done.
func (d *daemon) run(ctx context.Context, binary string, flags ...string) error {
	d.cmd = exec.Command(binary, append([]string{"daemon", "--socket", d.socket}, flags...)...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGTERM} // as a service manager does
	log, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if d.Client == nil {
			d.Client, err = api.Dial(ctx, d.socket)
		}
		if err == nil {
			var st *api.Status
			if st, err = d.Status(ctx); err == nil && st.SelfCheck != nil {
				return nil
			}
		}
		if time.Now().After(end) || ctx.Err() != nil {
			text, _ := os.ReadFile(log.Name())
			return errors.Join(fmt.Errorf("the daemon did not start:\n%s", text), err, ctx.Err())
		}
	}
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
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		t, err := d.Tree(ctx, id, "")
		if err != nil {
			return err
		}
		if len(t.Nodes) == n+1 {
			return nil
		}
	}
	return fmt.Errorf("session %s: not %d processes after 30 s", id, n)
}

// question is a request of which the time is measured.
type question struct {
	what string
	ask  func() error
}

// questions are about all sessions, about one, and about one process.
func (d *daemon) questions(ctx context.Context, id string, pid int) []question {
	return []question{
		{"ls", func() error { _, err := d.Sessions(ctx, "", ""); return err }},
		{"tree", func() error { _, err := d.Tree(ctx, id, ""); return err }},
		{"why", func() error { _, err := d.Why(ctx, fmt.Sprint(pid)); return err }},
	}
}

// adopt makes the worker, with its descendants, a session.
func (d *daemon) adopt(ctx context.Context, w *worker) (*api.Session, error) {
	grace := int64(0)
	return d.Create(ctx, api.NewSession{Root: api.Ref{PID: w.pid()}, Adopt: true, GraceMS: &grace})
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

// memory samples its resident memory, and the private part of that: only its own,
// without pages of files and the ring.
func (d *daemon) memory(r *report, live int) error {
	for field, unit := range map[string]string{"VmRSS": "B-rss", "RssAnon": "B-anon"} {
		kb, err := d.kilobytes(field)
		if err != nil {
			return err
		}
		r.sample(fmt.Sprintf("Daemon/live=%d", live), 1, kb*1024, unit)
	}
	return nil
}

// kilobytes is a field of its status.
func (d *daemon) kilobytes(field string) (kb float64, err error) {
	if _, err := fmt.Sscan(fieldOf(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid), field), &kb); err != nil {
		return 0, fmt.Errorf("%s of the daemon: %w", field, err)
	}
	return kb, nil
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
