//go:build linux

package supervise

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const (
	maxLines   = 20 // about leftovers on stderr
	maxHeld    = 8  // about ports and locks that are free again
	maxCommand = 72 // bytes of a command line shown
)

// receiptWait is how long the reader of a receipt that is a FIFO may take; tests shorten it.
var receiptWait = 5 * time.Second

// tell prints what was left over, and writes the receipt. With quiet it says nothing about processes that were ended.
// hurried: a signal has asked us to end, and the next one stops the writing. The error says that a requested receipt is
// not written.
func (r *runner) tell(rep *api.Report, hurried bool, signals <-chan os.Signal) error {
	if !r.Quiet {
		r.sayDeath(rep.Root)
	}
	for _, line := range r.lines(rep) {
		r.say("%s", line)
	}
	if r.receipt == nil {
		return nil
	}
	err := finishFile(receiptWait, hurried, signals, func() error {
		return r.receipt.Write(func(w io.Writer) error { return json.NewEncoder(w).Encode(rep) })
	})
	if err != nil {
		return fmt.Errorf("%s: report %s: %w", r.verb, r.Report, err)
	}
	return nil
}

// sayDeath says what the command died of. Of Ctrl-C, and of a pipe that nobody reads, it says nothing, as shells do.
func (r *runner) sayDeath(d *api.Death) {
	line := display.Death(d)
	if line == "" {
		return
	}
	by := d.Killer
	if d.After != nil && by == nil {
		by = d.After.Killer
	}
	if by != nil && by.Kind == "kernel" && (by.Signal == "SIGINT" || by.Signal == "SIGPIPE") {
		return
	}
	if by != nil && by.Process != nil && by.Process.Session == "" {
		line += "; it is in no session"
		if parents := parents(by.Process.Ref); len(parents) > 0 {
			line += ", its parents are " + strings.Join(parents, ", ")
		}
	}
	r.say("%s", line)
}

// maxParents bounds the parents of a sender that are named.
const maxParents = 4

// parents names the parents of a process, its own first, as the kernel has them now; none if it has exited.
func parents(of api.Ref) (names []string) {
	s, err := proc.Stat(uint32(of.PID))
	if err != nil || s.Start != uint64(of.StartNS)/uint64(procfs.Tick) {
		return nil
	}
	for len(names) < maxParents && s.Parent != 0 {
		if s, err = proc.Stat(s.Parent); err != nil {
			break
		}
		names = append(names, fmt.Sprintf("%d %s", s.PID, s.Comm))
	}
	return names
}

// finishFile writes a file, but gives up after limit, or when two signals have asked us
// to end.
func finishFile(limit time.Duration, hurried bool, signals <-chan os.Signal, write func() error) error {
	written := make(chan error, 1)
	go func() { written <- write() }()
	late := time.After(limit)
	for {
		select {
		case err := <-written:
			return err
		case <-late:
			return fmt.Errorf("not written within %v", limit)
		case s := <-signals:
			if !endsRun(s.(unix.Signal)) {
				continue
			}
			if hurried {
				return fmt.Errorf("not written: %v", s)
			}
			hurried = true
		}
	}
}

// lines are what is said of an end: what was left over, and what others may wait for.
func (r *runner) lines(rep *api.Report) []string {
	why := r.endedBefore(rep)
	var over []api.Outcome
	for _, p := range rep.Processes {
		// If the session was ended as a whole, its leftovers are only the processes that are still alive.
		if (p.Leftover && why == "" || p.Outcome == api.OutcomeLeft) && r.leaks.lists(p) {
			p.Why = strings.TrimPrefix(p.Why+r.leaks.origin(rep, p), ", ")
			over = append(over, p)
		}
	}
	about := "init: "
	if rep.Session != "" {
		about = fmt.Sprintf("session %s: ", rep.Session)
	}
	names := display.Names{Command: commandOf}
	others := r.others(rep, about, &names, (len(over) > 0 || why != "") && !r.Quiet)
	clean, quiet := rep.Verdict == api.VerdictClean, r.Quiet && r.leaks.code == 0
	if why == "" && clean && (len(over) == 0 || quiet) {
		return others
	}
	var parts []string
	if why != "" {
		parts = append(parts, why)
	} else if len(over) > 0 {
		more := ""
		if rep.Truncated {
			more = "at least "
		}
		n := more + display.Count(len(over), "process was", "processes were")
		parts = append(parts, n+" "+r.leaks.when(&r.Options)+" "+r.command()+" exited")
	}
	if verdict := *rep; why == "" || !clean {
		if clean {
			verdict.VerdictWhy = "" // it has been said what init does not see
		}
		parts = append(parts, display.Verdict(&verdict))
	}
	head := []string{about + strings.Join(parts, "; ")}
	if quiet {
		return append(head, others...)
	}
	rows, _ := display.Outcomes(over, names)
	lines := make([]string, len(rows))
	for i := range rows {
		lines[i] = fmt.Sprintf("  %s %s  %s", rows[i].PID, rows[i].Command, rows[i].How)
	}
	return slices.Concat(head, first(maxLines, lines), others)
}

// commandOf is a process's command line, as a line has room for it.
func commandOf(p *api.Process) string {
	return display.Brief(p.Argv, p.Comm, p.ArgvTruncated, maxCommand)
}

// first is the first lines, and how many more there are.
func first(most int, lines []string) []string {
	if n := len(lines) - most; n > 0 {
		return append(lines[:most], fmt.Sprintf("  and %d more", n))
	}
	return lines
}

// endedBefore says why the session ended before the command exited; "" if it
// did not.
func (r *runner) endedBefore(rep *api.Report) string {
	if r.leaks.looked || r.timed != nil && r.timed.over || rep.EndReason == "" ||
		rep.EndReason == "root_exit" {
		return "" // for another reason than ours
	}
	why := display.State(&api.Session{State: api.StateEnded, EndReason: rep.EndReason})
	switch by := rep.EndedBy; {
	case by == nil:
		return why
	case by.PID == os.Getpid():
		return why + " by a repeated SIGTERM"
	default:
		return why + " by " + display.Caller(by)
	}
}

// others are lines about ports, locks and output that others have now, and about delegated work that the end did not
// reach. all: also about ports and locks that are free now, but not the root's locks without a waiting process: every
// program that exits releases its locks.
func (r *runner) others(rep *api.Report, about string, names *display.Names, all bool) []string {
	root := 0
	if r.session != nil && r.session.Root != nil {
		root = r.session.Root.PID
	}
	var held, freed []string
	for _, n := range display.AfterEnd(rep, names) {
		switch {
		case n.Tone == display.Warn:
			held = append(held, about+n.Text)
		case all && n.Tone == display.Faint && (n.Lock == nil ||
			len(n.Lock.Waiting) > 0 || n.Lock.PID != root):
			freed = append(freed, about+n.Text)
		}
	}
	for i := range rep.Delegated {
		if b := &rep.Delegated[i]; !b.Ends {
			held = append(held, about+display.Delegated(b, rep.Session))
		}
	}
	return slices.Concat(first(maxLines, held), first(maxHeld, freed))
}
