// Package guest is what the host side and the guest side of a virtual machine must
// agree on: the plan that the guest's init finds in its initramfs, and the marks that
// it puts around each job's output.
package guest

import (
	"fmt"
	"runtime"
	"time"
)

const (
	// PlanPath is where init reads its Plan, as JSON.
	PlanPath = "/plan.json"
	// Root is the checkout's place in the guest.
	Root = "/src"
	// Mark begins a line of init among the output of the jobs. No test prints
	// this control character at the start of a line.
	Mark = "\x1e"
	// TimedOut is the exit code of a job that was killed because its time was over.
	TimedOut = 124
)

// Plan is what a guest does between its boot and its power-off.
type Plan struct {
	Cgroup string // "v1": a hierarchy for each controller; else version 2
	Proc   string // options of /proc
	PIDMax int    // and as many threads; 0: the kernel's own
	Jobs   []Job
}

// Job is one program to run, alone: processes that it leaves alive are killed and reported.
type Job struct {
	Name    string
	Dir     string // working directory
	Args    []string
	Env     []string
	Timeout time.Duration
}

// Port is the second serial port of this architecture's machine, as seen by the guest.
func Port() string {
	if runtime.GOARCH == "arm64" {
		return "/dev/ttyAMA1"
	}
	return "/dev/ttyS1"
}

// Begin is the line before a job's output.
func Begin(job string) string { return fmt.Sprintf("%sbegin %s\n", Mark, job) }

// Left names a process that outlived its job.
func Left(pid, comm string) string { return fmt.Sprintf("%sleft %s %q\n", Mark, pid, comm) }

// End is the line after a job's output.
func End(job string, code int, took time.Duration) string {
	return fmt.Sprintf("%send %d %d %s\n", Mark, code, took.Milliseconds(), job)
}

// Done is the last line of a guest that finished its plan.
func Done() string { return Mark + "done\n" }
