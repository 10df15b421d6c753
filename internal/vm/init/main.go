//go:build linux

// Init is PID 1 of a test's virtual machine. It mounts what a host has, runs the jobs
// of its plan one after the other, each in a mount namespace with a bpffs of its own,
// and powers the machine off. It needs no libc, modules or shell.
//
// The kernel's messages go to the first serial port, the jobs' output to the
// second.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/lineage-ebpf/lineage/internal/vm/guest"
	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == enterArg { // started by this program, see job.go
		fmt.Fprintln(os.Stderr, "init:", enter())
		os.Exit(126)
	}
	if err := run(); err != nil {
		fmt.Println("init:", err) // to the console; without "done" the run has failed
	}
	unix.Sync()
	fmt.Println("init: power off:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	select {} // PID 1 must not end
}

func run() error {
	data, err := os.ReadFile(guest.PlanPath)
	if err != nil {
		return err
	}
	var plan guest.Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := mountAll(plan); err != nil {
		return err
	}
	if plan.PIDMax > 0 {
		// By default threads may use at most an eighth of the memory.
		for _, limit := range []string{"pid_max", "threads-max"} {
			if err := os.WriteFile("/proc/sys/kernel/"+limit,
				[]byte(strconv.Itoa(plan.PIDMax)), 0); err != nil {
				return err
			}
		}
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	out, err := openPort(guest.Port())
	if err != nil {
		return err
	}
	for _, job := range plan.Jobs {
		runJob(out, &job)
	}
	fmt.Fprint(out, "\n"+guest.Done())
	return drain(out)
}
