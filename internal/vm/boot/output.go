//go:build linux

package boot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

// ErrUnfinished says that a guest did not reach the end of its plan: it panicked, hung,
// or ran out of time.
var ErrUnfinished = errors.New("the guest did not finish")

// Job is the result of one of the guest's jobs.
type Job struct {
	Name   string
	Code   int // 128 + signal, 124 if it ran out of time; -1 while it runs
	Took   time.Duration
	Output []byte
	Left   []string // processes that it left alive
}

// parseOutput parses what the guest wrote to the second serial port.
func parseOutput(out []byte) ([]Job, error) {
	var jobs []Job
	var job *Job
	done := false
	lines := bufio.NewReader(bytes.NewReader(out))
	for {
		line, readErr := lines.ReadBytes('\n')
		text, marked := bytes.CutPrefix(line, []byte(guest.Mark))
		verb, rest, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
		switch {
		case !marked:
			if job != nil {
				job.Output = append(job.Output, line...)
			}
		case verb == "begin":
			jobs = append(jobs, Job{Name: rest, Code: -1})
			job = &jobs[len(jobs)-1]
		case verb == "left" && job != nil:
			job.Left = append(job.Left, rest)
		case verb == "end" && job != nil:
			var ms int64
			if _, err := fmt.Sscanf(rest, "%d %d", &job.Code, &ms); err != nil ||
				!strings.HasSuffix(rest, " "+job.Name) {
				return jobs, fmt.Errorf("%w: bad line %q", ErrUnfinished, line)
			}
			job.Took = time.Duration(ms) * time.Millisecond
			job = nil
		case verb == "done":
			done = true
		default:
			return jobs, fmt.Errorf("%w: bad line %q", ErrUnfinished, line)
		}
		if readErr != nil {
			break
		}
	}
	if !done {
		return jobs, ErrUnfinished
	}
	return jobs, nil
}

// complaint matches the first line of a kernel's report of its own error.
var complaint = regexp.MustCompile(`WARNING:|BUG:|Oops|Kernel panic|general protection|double fault|` +
	`possible (circular|recursive) locking|suspicious RCU usage|rcu: INFO|blocked for more than|` +
	`soft lockup|hard LOCKUP|UBSAN:|KASAN:|refcount_t:|list_(add|del) corruption|Call Trace:`)

var ooms = regexp.MustCompile(` invoked oom-killer: (?s:.{0,400}?)Call Trace:`)

// Complaints are the lines of the console that no kernel may print in a test. The OOM killer prints a trace, too.
func Complaints(console []byte) []string {
	var found []string
	for line := range strings.Lines(ooms.ReplaceAllString(string(console), "")) {
		if complaint.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
