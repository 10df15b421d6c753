//go:build linux

package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/html"
)

const (
	maxLines   = 20 // leftovers named on stderr
	maxCommand = 72 // bytes of a command line shown
)

// receiptWait is how long the reader of a receipt that is a FIFO may take, and pageWait how long
// the page of a large session may take, half of it to be read; tests shorten them.
var receiptWait, pageWait = 5 * time.Second, 30 * time.Second

// tell prints what was left over, and writes the receipt. It prints nothing if the command left
// nothing, and with quiet nothing about processes that were ended. hurried: a signal has already
// asked us to end, and the next one stops the writing. The error says that a receipt was requested
// and is not written. read reads the page, if that is requested.
func (r *runner) tell(rep *api.Report, read func() *html.Page, hurry, hurried bool, signals <-chan os.Signal) error {
	for _, line := range r.lines(rep, hurry) {
		r.say("%s", line)
	}
	if r.receipt == nil {
		return nil
	}
	var lacks []string
	limit, write := receiptWait, func() error {
		return r.receipt.Write(func(w io.Writer) error { return json.NewEncoder(w).Encode(rep) })
	}
	if isPage(r.Report) {
		limit, write = pageWait, func() error {
			page := read()
			lacks = page.Lacks()
			return r.receipt.Write(func(w io.Writer) error { return page.Write(w, rep) })
		}
	}
	if err := finishFile(limit, hurried, signals, write); err != nil {
		return fmt.Errorf("%s: report %s: %w", r.verb, r.Report, err)
	}
	for _, what := range lacks {
		r.say("%s: report %s: %s", r.verb, r.Report, what)
	}
	return nil
}

// isPage reports whether a receipt is to be a page.
func isPage(report string) bool { return strings.EqualFold(filepath.Ext(report), ".html") }

// page is the page of the session, from the history.
func (r *runner) page(ctx context.Context, l *link) *html.Page {
	ctx, cancel := context.WithTimeout(ctx, pageWait/2)
	defer cancel()
	page, err := ask(ctx, l, func(c api.Client) (*html.Page, error) {
		s, err := c.Session(ctx, r.session.ID)
		if err != nil {
			return nil, err
		}
		return html.History(ctx, c, s)
	})
	if page == nil {
		page = html.New(r.session, nil)
	}
	if err != nil {
		page.Missing(err.Error())
	}
	return page
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

func (r *runner) lines(rep *api.Report, hurry bool) []string {
	why := r.endedBefore(rep)
	var over []api.Outcome
	for _, p := range rep.Processes {
		// If the session was ended as a whole, its leftovers are only the processes that are still alive.
		if (p.Leftover && why == "" || p.Outcome == api.OutcomeLeft) && r.leaks.lists(p) {
			over = append(over, p)
		}
	}
	freed := append(freed(rep, (len(over) > 0 || why != "") && !r.Quiet, r.session), handed(rep)...)
	clean, quiet := rep.Verdict == api.VerdictClean, r.Quiet && r.leaks.code == 0
	if why == "" && clean && (len(over) == 0 || quiet) {
		return freed
	}
	head := "init: "
	if rep.Session != "" {
		head = fmt.Sprintf("session %s: ", rep.Session)
	}
	var parts []string
	if why != "" {
		parts = append(parts, "ended: "+why)
	} else if len(over) > 0 {
		parts = append(parts, count(over, rep)+" "+r.leaks.when(&r.Options)+" "+r.command()+" exited")
	}
	if why == "" || !clean {
		parts = append(parts, r.summary(rep))
	}
	head += strings.Join(parts, "; ")
	if quiet {
		return append([]string{head}, freed...)
	}
	lines := []string{head}
	for i, p := range over {
		if i == maxLines {
			lines = append(lines, fmt.Sprintf("  and %d more", len(over)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("  %d %s  %s", p.PID, display.InContainer(display.Brief(p.Argv, p.Comm, false, maxCommand), p.Container), fate(p, hurry)+r.leaks.origin(rep, p)))
	}
	return append(lines, freed...)
}

// endedBefore says why the session ended before the command exited; "" if it
// did not.
func (r *runner) endedBefore(rep *api.Report) string {
	if r.leaks.looked || r.timed != nil && r.timed.over {
		return "" // we ended it
	}
	switch rep.EndReason {
	case "", "root_exit":
		return ""
	case "max_lifetime":
		return "max_lifetime" + limit(r.MaxLifetime > 0, r.MaxLifetime) + " reached"
	case "max_processes":
		return "max_processes" + limit(r.MaxProcesses > 0, r.MaxProcesses) + " reached"
	case "max_rss":
		return "max_rss" + limit(r.MaxRSS > 0, display.Size(uint64(r.MaxRSS))) + " reached"
	case "idle":
		return "idle" + limit(r.Idle > 0, r.Idle)
	case "ancestor":
		return "the session around it ended"
	case "end":
		return "requested" + requester(rep.EndedBy)
	case "halt":
		if by := rep.EndedBy; by != nil && by.Reason != "" {
			return "the host was halted: " + display.Text(by.Reason)
		}
		return "the host was halted"
	}
	return rep.EndReason
}

// limit describes a limit that we set; the value of one from the policy is not known here.
func limit(ours bool, value any) string {
	if !ours {
		return ""
	}
	return fmt.Sprintf(" %v", value)
}

func requester(c *api.Caller) string {
	switch {
	case c == nil:
		return ""
	case c.PID == os.Getpid():
		return " by a repeated SIGTERM"
	}
	return " by " + display.Caller(c)
}

// handed names the work that was handed to other daemons and that the end did
// not reach.
func handed(rep *api.Report) (lines []string) {
	for i := range rep.Brokered {
		if b := &rep.Brokered[i]; !b.Ends {
			lines = append(lines, fmt.Sprintf("session %s: %s", rep.Session, display.Brokered(b, rep.Session)))
		}
	}
	return lines
}

const maxHeld = 8 // ports and locks named on stderr

// freed is one line about ports and locks that others may wait for, above all those that
// are still held; none if there is nothing to report. all: also those that are free now, without
// locks of the root for which no process waits: a program that opens a database has many, and
// every program that exits releases its locks.
func freed(rep *api.Report, all bool, s *api.Session) []string {
	root := 0
	if s != nil && s.Root != nil {
		root = s.Root.PID
	}
	held := map[display.HoldState][]string{}
	for _, h := range display.AfterEnd(rep, func(p *api.Process) string { return fmt.Sprintf("%d %s", p.PID, p.Comm) }) {
		if h.Bad() || all && (h.Lock == nil || len(h.Lock.Waiting) > 0 || h.Lock.PID != root) {
			held[h.State] = append(held[h.State], strings.TrimSuffix(h.Name+" "+h.By, " "))
		}
	}
	var parts []string
	for _, state := range []display.HoldState{display.Freed, display.Released, display.Busy, display.StillHeld, display.StillOpen} {
		names := held[state]
		if n := len(names); n > maxHeld {
			names = append(names[:maxHeld:maxHeld], fmt.Sprintf("%d more", n-maxHeld))
		}
		if len(names) > 0 {
			parts = append(parts, string(state)+" "+strings.Join(names, ", "))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("session %s: %s", rep.Session, strings.Join(parts, "; "))}
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
	case rep.Verdict == api.VerdictUnknown:
		return strings.TrimSuffix("verdict unknown: "+rep.VerdictWhy, ": ")
	case r.OnExit == OnExitReport:
		return "nothing was ended"
	case rep.Verdict == api.VerdictLeft:
		return strings.TrimSuffix(fmt.Sprintf("%d could not be ended: %s", rep.Left, rep.VerdictWhy), ": ")
	}
	return "all ended"
}

// fate says how a leftover ended. hurry: SIGKILL came without a grace.
func fate(p api.Outcome, hurry bool) string {
	switch {
	case p.Outcome == api.OutcomeKill && !hurry:
		p.Outcome = "SIGKILL after the grace"
	case p.Outcome == api.OutcomeLeft:
		p.Outcome = "still alive"
	}
	return display.Outcome(&p)
}
