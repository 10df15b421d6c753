package display

import (
	"fmt"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
)

// Sender says which signal it was, and who sent it to the process: "SIGTERM from 4242 pkill,
// session x".
func Sender(s *api.Sender, to api.Ref) string {
	words := s.Signal
	switch p := s.Process; {
	case p != nil && p.Ref == to:
		words += " from itself"
	case p != nil:
		words += fmt.Sprintf(" from %d %s", p.PID, p.Comm)
		if p.Session != "" {
			words += ", session " + p.Session
		}
	case s.Kind == "kernel":
		words += " by the kernel"
	case s.Kind == "fault":
		words += ", its own fault"
	case s.Kind == "oom":
		words += " by the OOM killer"
	case s.Kind == "timer":
		words += ", a timer's by its own account"
	case s.Kind == "lineage":
		words += " by lineage"
	}
	if s.Passed && s.Kind == "kernel" && s.Signal == "SIGHUP" {
		words += ": the terminal was closed"
	}
	if s.Passed {
		words += ", passed on by the session's owner"
	}
	switch {
	case s.Raised:
		words += ", handled and then sent to itself"
	case s.Handled:
		words += ", handled"
	}
	return Text(words)
}

// Crossing says which signal a member sent to whom: "SIGTERM to 4242 postgres, refused".
func Crossing(x *api.Crossing) string {
	words := fmt.Sprintf("%s to %d %s", x.Signal, x.To.PID, x.To.Comm)
	if x.To.Session != "" {
		words += ", session " + x.To.Session
	}
	if x.Refused {
		words += ", refused"
	}
	return Text(words)
}

// HowEnded says how a process ended, and who did it: "exited 3", "killed by SIGKILL from 4242 pkill".
func HowEnded(p *api.Process) string { return Exited(p, "killed by ", "exited ") }

// Exited is HowEnded with other words before the signal, and before the exit code.
func Exited(p *api.Process, killed, exited string) string {
	words := "exited"
	switch {
	case p.Signal != "" && p.Killer != nil:
		return killed + Sender(p.Killer, p.Ref)
	case p.Signal != "":
		return killed + Text(p.Signal)
	case p.ExitCode != nil:
		words = exited + strconv.Itoa(*p.ExitCode)
	}
	if p.Killer != nil {
		words += " after " + Sender(p.Killer, p.Ref)
	}
	return words
}

// Stopped says who stopped a process.
func Stopped(p *api.Process) string { return "stopped by " + Sender(p.Stopped, p.Ref) }
