//go:build linux

package escapes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An outcome is what came of one trial.
type outcome struct {
	failed    bool
	survivors int           // alive when the end was said to be over
	touched   int           // strangers that were signalled
	took      time.Duration // from the cause to the receipt
}

// A tally sums the trials of one row in one cell up.
type tally struct {
	rounds, failed, survivors, touched int
	slowest                            time.Duration
}

func (a tally) plus(b tally) tally {
	return tally{a.rounds + b.rounds, a.failed + b.failed, a.survivors + b.survivors, a.touched + b.touched, max(a.slowest, b.slowest)}
}

// results are the tallies of all rows. Trials come one after the other.
type results map[*row]map[cell]tally

var seen = results{}

func (s results) note(r *row, c cell, o outcome) {
	if s[r] == nil {
		s[r] = map[cell]tally{}
	}
	t := tally{rounds: 1, survivors: o.survivors, touched: o.touched, slowest: o.took}
	if o.failed {
		t.failed = 1
	}
	s[r][c] = s[r][c].plus(t)
}

// write makes a table in Markdown of the rows that were tried, and of those
// that are not.
func (s results) write(path string) error {
	var b strings.Builder
	var total tally
	cells := map[cell]bool{}
	for _, byCell := range s {
		for c, t := range byCell {
			cells[c] = true
			total = total.plus(t)
		}
	}
	fmt.Fprintf(&b, "%s, %s. %d trials in %d cells: %d survivors, %d innocents touched, %d trials failed.\n\n",
		time.Now().UTC().Format("2006-01-02"), machine(), total.rounds, len(cells), total.survivors, total.touched, total.failed)
	b.WriteString("| # | name | what it does | expected | rounds × cells | survivors | innocents | slowest | held |\n")
	b.WriteString("| ---: | --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n")
	for i := range rows {
		r := &rows[i]
		if r.why != "" {
			fmt.Fprintf(&b, "| %d | %s | | | | | | | %s |\n", r.number, r.name, r.why)
			continue
		}
		if s[r] == nil {
			continue
		}
		var sum tally
		most := 0
		for _, t := range s[r] {
			sum = sum.plus(t)
			most = max(most, t.rounds)
		}
		held := "yes"
		if sum.failed > 0 {
			held = fmt.Sprintf("**no**: %d failed, in %s", sum.failed, s.failures(r))
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %d × %d | %d | %d | %v | %s |\n", r.number, r.name, r.does, r.expected,
			most, len(s[r]), sum.survivors, sum.touched, sum.slowest.Round(time.Millisecond), held)
	}
	if path == "-" {
		_, err := os.Stdout.WriteString(b.String())
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// failures are the cells in which a row failed.
func (s results) failures(r *row) string {
	var in []string
	for c, t := range s[r] {
		if t.failed > 0 {
			in = append(in, c.String())
		}
	}
	slices.Sort(in)
	return strings.Join(in, "; ")
}

// machine is where this ran: kernel, architecture and CPUs, no host's name.
func machine() string {
	var u unix.Utsname
	var cpus unix.CPUSet
	if unix.Uname(&u) != nil || unix.SchedGetaffinity(0, &cpus) != nil {
		return "unknown machine"
	}
	return fmt.Sprintf("Linux %s %s, %d CPUs", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), cpus.Count())
}
