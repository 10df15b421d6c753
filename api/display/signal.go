package display

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Sender says which signal it was, and who sent it to the process: "SIGTERM from 4242 pkill,
// session x". One of the process's own session is a member of this session.
func Sender(s *api.Sender, to api.Ref, session string) string {
	words := s.Signal + sent[s.Kind]
	if s.Kind == "oom" {
		words = "the OOM killer" + outOfMemory(s.OOM)
	}
	if p := s.Process; p != nil {
		who := "itself"
		if p.Ref != to {
			who = fmt.Sprintf("%d %s", p.PID, p.Comm)
		}
		switch {
		case p.Ref == to || p.Session == "":
		case p.Session == session:
			who += ", a member of this session"
		default:
			who += ", session " + p.Session
		}
		form := cmp.Or(behind[s.Kind], behind["process"])
		if strings.Contains(who, ", ") && !strings.HasSuffix(form, "WHO") {
			who += ","
		}
		words = s.Signal + " " + strings.Replace(form, "WHO", who, 1)
	}
	switch why := reasons[s.Signal]; {
	case s.Kind == "fault" && s.Signal == "SIGSYS":
		words += ": a system call that is forbidden to it"
	case s.Kind == "kernel" && s.Signal == "SIGHUP" && s.Passed:
		words += ": the terminal was closed"
	case s.Kind == "kernel" && why != "":
		words += ": " + why
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

// What is said of a sender, by its kind: of one that is a process, and of others.
var (
	behind = map[string]string{
		"process":       "from WHO",
		"cgroup_kill":   "by a write to cgroup.kill by WHO",
		"parent":        "because its parent WHO exited (PDEATHSIG)",
		"tracer":        "because its tracer WHO exited",
		"pid_namespace": "because WHO exited, PID 1 of its PID namespace",
	}
	sent = map[string]string{
		"kernel":  " by the kernel",
		"limit":   " by the kernel: its limit of CPU time",
		"io":      " by the kernel: a file that signals it (F_SETOWN)",
		"fault":   ", its own fault",
		"timer":   ", a timer's by its own account",
		"lineage": " by lineage",
	}
	// Why the kernel sends a signal that has one reason.
	reasons = map[string]string{
		"SIGHUP":    "its terminal was hung up, or its stopped job lost its shell",
		"SIGINT":    "typed at its terminal",
		"SIGQUIT":   "typed at its terminal",
		"SIGALRM":   "its own timer",
		"SIGVTALRM": "its own timer",
		"SIGPROF":   "its own timer",
		"SIGXCPU":   "its limit of CPU time",
		"SIGXFSZ":   "its limit of file size",
		"SIGPIPE":   "its output has no reader",
	}
)

// outOfMemory says whose memory the OOM killer had to free, and what the process had of it.
func outOfMemory(o *api.OOM) (words string) {
	if o == nil {
		return ""
	}
	size := func(n uint64) string { return strings.Replace(Size(n), ".0", "", 1) + "iB" }
	switch o.Of {
	case "session":
		words = ": memory limit " + size(o.LimitBytes) + " of session " + cmp.Or(o.Name, o.Session)
	case "outer":
		words = ": memory limit of an outer cgroup"
	case "host":
		words = ": the host had no memory left"
	}
	if o.RSSBytes != 0 {
		words += ", it had " + size(o.RSSBytes)
	}
	if o.PeakBytes != 0 {
		words += "; peak " + size(o.PeakBytes)
	}
	return words
}

// Moved says where a member was moved, and by whom.
func Moved(m *api.Moved, p *api.Process) string {
	words := "to cgroup " + cmp.Or(m.Cgroup, "(unknown)")
	if m.Outside {
		words += ", outside of its session's"
	}
	switch by := m.By; {
	case by == nil:
	case by.Ref == p.Ref:
		words += ", on its own"
	default:
		words += fmt.Sprintf(", by %d %s", by.PID, by.Comm)
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
		return killed + Sender(p.Killer, p.Ref, p.Session)
	case p.Signal != "":
		return killed + Text(p.Signal)
	case p.ExitCode != nil:
		words = exited + strconv.Itoa(*p.ExitCode)
	}
	if p.Killer != nil {
		words += " after " + Sender(p.Killer, p.Ref, p.Session)
	}
	return words
}

// Death says what the root of a session died of: "sh (29825) was killed by SIGKILL from 29832 bash, a member
// of this session". It is "" if it did not fail, or lineage ended it, or nothing is known.
func Death(d *api.Death) string {
	if d == nil {
		return ""
	}
	name, code := fmt.Sprintf("%s (%d) ", d.Comm, d.PID), 0
	if d.ExitCode != nil {
		code = *d.ExitCode
	}
	switch k, x := d.Killer, d.After; {
	case k != nil && k.Kind == "lineage" || d.Signal == "" && code == 0 && x == nil:
		return ""
	case d.Signal != "" && k == nil:
		return Text(name + "was killed by " + d.Signal + "; the sender is not known")
	case k != nil:
		return Text(name) + Exited(&d.Process, "was killed by ", "exited ")
	case x != nil:
		kin := "a member of its session"
		if x.Creator != nil && *x.Creator == d.Ref {
			kin = "its child"
		}
		if code == 0 { // only of the OOM killer
			return Text(fmt.Sprintf("%d %s %s", x.PID, x.Comm, Exited(x, "was killed by ", "")))
		}
		return Text(fmt.Sprintf("%s exited %d; %d %s, %s, %s", d.Comm, code, x.PID, x.Comm, kin,
			Exited(x, "was killed by ", "")))
	case code <= 128 || code > 128+64:
		return ""
	case !d.Whole:
		return Text(fmt.Sprintf("%s exited %d; not all deaths before it are known", d.Comm, code))
	}
	return Text(fmt.Sprintf("%s exited %d on its own", d.Comm, code))
}

// Stopped says who stopped a process.
func Stopped(p *api.Process) string { return "stopped by " + Sender(p.Stopped, p.Ref, p.Session) }
