//go:build linux

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/plain"
)

// Outcomes of a process in a receipt.
const (
	outcomeSelf = "self"
	outcomeTerm = "term"
	outcomeKill = "kill"
	outcomeKept = "kept"
	outcomeLeft = "left"
)

const (
	maxLines   = 20 // leftovers named on stderr
	maxCommand = 72 // characters of a command line shown
)

// tell prints what was left over and writes the receipt. Nothing is said about
// a command that left nothing; quiet, nothing about what was ended.
func (r *runner) tell(rep *api.Report, hurry bool) {
	for _, line := range r.lines(rep, hurry) {
		r.say("%s", line)
	}
	if r.Report == "" {
		return
	}
	if err := writeReceipt(r.Report, rep); err != nil {
		r.say("%s: report %s: %v", r.verb, r.Report, err)
	}
}

func (r *runner) lines(rep *api.Report, hurry bool) []string {
	var over []api.Outcome
	for _, p := range rep.Processes {
		if p.Leftover {
			over = append(over, p)
		}
	}
	freed := append(freed(rep, len(over) > 0 && !r.Quiet), handed(rep)...)
	if rep.Verdict == verdictClean && (len(over) == 0 || r.Quiet) {
		return freed
	}
	head := "init: "
	if rep.Session != "" {
		head = fmt.Sprintf("session %s: ", rep.Session)
	}
	if len(over) > 0 {
		head += fmt.Sprintf("%s left over when %s exited; ", count(over, rep), r.command())
	}
	head += r.summary(rep)
	if r.Quiet {
		return append([]string{head}, freed...)
	}
	lines := []string{head}
	for i, p := range over {
		if i == maxLines {
			lines = append(lines, fmt.Sprintf("  and %d more", len(over)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("  %d %s  %s", p.PID, commandLine(p), fate(p, hurry)))
	}
	return append(lines, freed...)
}

// handed names the work that was handed to other daemons and that the end did
// not reach.
func handed(rep *api.Report) (lines []string) {
	for i := range rep.Brokered {
		if b := &rep.Brokered[i]; !b.Ends {
			lines = append(lines, fmt.Sprintf("session %s: %s", rep.Session, plain.Brokered(b, rep.Session)))
		}
	}
	return lines
}

const maxHeld = 8 // ports and locks named on stderr

// freed is one line on what others waited for, and above all on what they will
// still wait for; none if there is nothing to tell. all: what is free now too.
func freed(rep *api.Report, all bool) []string {
	var parts []string
	add := func(what string, held []string) {
		if n := len(held); n > maxHeld {
			held = append(held[:maxHeld:maxHeld], fmt.Sprintf("%d more", n-maxHeld))
		}
		if len(held) > 0 {
			parts = append(parts, what+" "+strings.Join(held, ", "))
		}
	}
	if all {
		add("freed", texts(rep.PortsFreed, portText))
		add("released", texts(rep.LocksReleased, lockText))
	}
	add("still busy:", texts(rep.PortsBusy, func(p *api.Port) string { return portText(p) + by(p.PID) }))
	add("still held:", texts(rep.LocksHeld, func(l *api.Lock) string { return lockText(l) + by(l.PID) }))
	add("output still open in", texts(rep.OutputHeldBy, func(p *api.Process) string { return fmt.Sprintf("%d %s", p.PID, p.Comm) }))
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("session %s: %s", rep.Session, strings.Join(parts, "; "))}
}

func texts[T any](all []T, text func(*T) string) (texts []string) {
	for i := range all {
		texts = append(texts, text(&all[i]))
	}
	return texts
}

func portText(p *api.Port) string {
	if p.Proto == "unix" {
		return "unix " + p.Addr
	}
	return p.Proto + " " + net.JoinHostPort(p.Addr, strconv.Itoa(p.Port))
}

func lockText(l *api.Lock) string {
	if l.Type == "file" {
		return "lock file " + l.Path
	}
	return l.Type + " " + l.Path
}

func by(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" by %d", pid)
}

func count(over []api.Outcome, rep *api.Report) string {
	more := ""
	if rep.Truncated {
		more = "at least "
	}
	if len(over) == 1 {
		return more + "1 process was"
	}
	return fmt.Sprintf("%s%d processes were", more, len(over))
}

func (r *runner) summary(rep *api.Report) string {
	switch {
	case rep.Verdict == verdictUnknown:
		return strings.TrimSuffix("verdict unknown: "+rep.VerdictWhy, ": ")
	case r.OnExit == OnExitReport:
		return "nothing was ended"
	case rep.Verdict == verdictLeft:
		return strings.TrimSuffix(fmt.Sprintf("%d could not be ended: %s", rep.Left, rep.VerdictWhy), ": ")
	}
	return "all ended"
}

// fate says how a leftover went. hurry: SIGKILL came without a grace.
func fate(p api.Outcome, hurry bool) string {
	var s string
	switch p.Outcome {
	case outcomeSelf:
		s = "exited by itself"
	case outcomeTerm:
		s = "SIGTERM"
	case outcomeKill:
		s = "SIGKILL needed"
		if hurry {
			s = "SIGKILL"
		}
	case outcomeKept:
		s = "kept"
	case outcomeLeft:
		s = "still alive"
	default:
		s = p.Outcome
	}
	if p.Why != "" {
		s += ": " + p.Why
	}
	return s
}

// commandLine is what ps would show, and the container that it is in.
func commandLine(p api.Outcome) string {
	s := "[" + p.Comm + "]"
	if len(p.Argv) > 0 {
		s = strings.Join(p.Argv, " ")
	}
	if utf8.RuneCountInString(s) > maxCommand {
		s = string([]rune(s)[:maxCommand-1]) + "…"
	}
	if p.Container != "" {
		s += " in container " + p.Container
	}
	return s
}

// canWrite tells, before anything runs, whether the receipt can be written.
func canWrite(name string) error {
	fi, err := os.Stat(name)
	switch {
	case err == nil && fi.IsDir():
		return unix.EISDIR
	case err == nil && !fi.Mode().IsRegular():
		return access(name)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return access(filepath.Dir(name))
}

func access(name string) error {
	return unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS)
}

// writeReceipt writes rep to name, so that a reader sees all of it or nothing.
// What is no file, such as /dev/stderr or a FIFO, is written to, not replaced.
func writeReceipt(name string, rep *api.Report) error {
	b, err := json.Marshal(rep)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if fi, err := os.Stat(name); err == nil {
		if !fi.Mode().IsRegular() {
			return os.WriteFile(name, b, 0)
		}
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	tmp := fmt.Sprintf("%s.%d", name, os.Getpid())
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}
