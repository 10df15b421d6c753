//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/internal/vm/guest"
	"golang.org/x/sys/unix"
)

// enterArg distinguishes the init that is to become a job from the one that starts it.
const enterArg = "enter"

// runJob runs a job until it ends or its time is over, and removes what it left.
func runJob(out *os.File, job *guest.Job) {
	fmt.Fprint(out, "\n"+guest.Begin(job.Name))
	began := time.Now()
	code, left, err := startAndWait(out, job)
	if err != nil {
		fmt.Fprintln(out, "init:", err)
	}
	for _, p := range left {
		fmt.Fprint(out, "\n"+p)
	}
	// A test's output may end within a line.
	fmt.Fprint(out, "\n"+guest.End(job.Name, code, time.Since(began)))
}

// startAndWait returns the exit code of the job (126: it could not be started), and the processes that it left. The job
// writes to a pipe, as under go test: the port is a terminal.
func startAndWait(out *os.File, job *guest.Job) (code int, left []string, err error) {
	spec, err := json.Marshal(job)
	if err != nil {
		return 126, nil, err
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		return 126, nil, err
	}
	defer in.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 126, nil, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, r)
		r.Close()
	}()
	defer func() {
		w.Close()
		left = sweep()
		<-copied // all processes that held the pipe are dead
	}()
	p, err := os.StartProcess("/init", []string{"init", enterArg, string(spec)}, &os.ProcAttr{
		Files: []*os.File{in, w, w},
		Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true},
	})
	if err != nil {
		return 126, nil, fmt.Errorf("start %s: %w", job.Name, err)
	}
	timedOut := make(chan struct{})
	timer := time.AfterFunc(job.Timeout, func() {
		close(timedOut)
		_ = unix.Kill(p.Pid, unix.SIGKILL)
	})
	status, err := reapUntil(p.Pid)
	if !timer.Stop() {
		<-timedOut
		return guest.TimedOut, nil, fmt.Errorf("%s: killed after %v", job.Name, job.Timeout)
	}
	if err != nil {
		return 126, nil, err
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), nil, nil
	}
	return status.ExitStatus(), nil, nil
}

// reapUntil reaps every process that dies, as PID 1 must, until pid does.
func reapUntil(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		p, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || p == pid {
			return status, err
		}
	}
}

// sweep kills, reaps and names the processes that the job left: a test must leave none
// alive.
func sweep() (left []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		pid := filepath.Base(filepath.Dir(path))
		// Kernel threads and zombies have no command line.
		if line, err := os.ReadFile(path); err == nil && len(line) > 0 && pid != "1" {
			comm, _ := os.ReadFile("/proc/" + pid + "/comm")
			left = append(left, guest.Left(pid, string(bytes.TrimSpace(comm))))
		}
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return left // no process is left
		}
	}
}

// enter prepares the mount namespace that a job was started in and becomes the job.
// It returns only on an error.
func enter() error {
	var job guest.Job
	if err := json.Unmarshal([]byte(os.Args[2]), &job); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=700"); err != nil {
		return fmt.Errorf("mount a bpffs: %w", err)
	}
	if err := os.Chdir(job.Dir); err != nil {
		return err
	}
	env := append([]string{"PATH=/bin:/usr/bin", "HOME=/tmp", "TERM=dumb", "NO_COLOR=1"}, job.Env...)
	return fmt.Errorf("exec %s: %w", job.Args[0], unix.Exec(job.Args[0], job.Args, env))
}
