//go:build linux

package escapes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type outcome struct {
	failed    bool
	survivors int           // alive when the end was reported as over
	touched   int           // outsiders that were signalled
	took      time.Duration // from the cause to the receipt
}

// A tally sums up the trials of one row in one cell.
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

// table is in Markdown: the rows that were tried.
func (s results) table() string {
	var b strings.Builder
	var total tally
	cells := map[cell]bool{}
	for _, byCell := range s {
		for c, t := range byCell {
			cells[c] = true
			total = total.plus(t)
		}
	}
	levels := levelsOf(cells)
	fmt.Fprintf(&b, "%s, %s: %d trials in %d cells, %d of them failed, %d survivors, %d outsiders touched.\n\n",
		time.Now().UTC().Format(time.DateOnly), machine(), total.rounds, len(cells), total.failed, total.survivors, total.touched)
	b.WriteString("| # | name | what it does | expected |")
	for _, level := range levels {
		fmt.Fprintf(&b, " level %d |", level)
	}
	b.WriteString(" survivors | touched | slowest |\n| ---: | --- | --- | --- |" + strings.Repeat(" ---: |", len(levels)+3) + "\n")
	for i := range rows {
		r := &rows[i]
		if s[r] == nil {
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |", r.number, r.name, r.does, r.expected)
		var all tally
		for _, level := range levels {
			var t tally
			for c, n := range s[r] {
				if c.level == level {
					t = t.plus(n)
				}
			}
			all = all.plus(t)
			fmt.Fprintf(&b, " %d/%d |", t.rounds-t.failed, t.rounds)
		}
		fmt.Fprintf(&b, " %d | %d | %v |\n", all.survivors, all.touched, all.slowest.Round(time.Millisecond))
	}
	return b.String()
}

// skipped are the rows that are not tried, in Markdown.
func skipped() string {
	var b strings.Builder
	b.WriteString("| # | name | why |\n| ---: | --- | --- |\n")
	for i := range rows {
		if r := &rows[i]; r.why != "" {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", r.number, r.name, r.why)
		}
	}
	return b.String()
}

func levelsOf(cells map[cell]bool) []int {
	var levels []int
	for c := range cells {
		if !slices.Contains(levels, c.level) {
			levels = append(levels, c.level)
		}
	}
	slices.Sort(levels)
	return levels
}

// machine is where this ran: kernel, architecture and CPUs, without the host's name.
func machine() string {
	var u unix.Utsname
	var cpus unix.CPUSet
	if unix.Uname(&u) != nil || unix.SchedGetaffinity(0, &cpus) != nil {
		return "unknown machine"
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-") // what follows is the builder's
	return fmt.Sprintf("Linux %s %s, %d CPUs", version, unix.ByteSliceToString(u.Machine[:]), cpus.Count())
}
