//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/page"
)

// keepPages writes the results into the documents, or fails if a document differs from them.
func keepPages(update bool) error {
	all, err := loadResults()
	if err != nil {
		return err
	}
	for _, p := range []struct{ name, text string }{
		{"cells", cellTable(all)}, {"missing", missingTable(all)}, {"kernels", levelTable(all)},
	} {
		if err := page.Keep("docs/results/kernels.md", p.name, p.text, update); err != nil {
			return err
		}
	}
	return nil
}

// cellTable shows the result of each cell.
func cellTable(all []*result) string {
	t := page.NewTable("cell", "kernel", "why", "level:", "passed:", "skipped:", "problems:", "on", "not run")
	for _, r := range all {
		passed, skipped := r.tests()
		level := fmt.Sprint(r.Level)
		if r.Level == 0 {
			level = "refused"
		}
		missing := r.notRun() // as red as a failure
		for i := range missing {
			missing[i] = "**" + missing[i] + "**"
		}
		t.Row(r.Cell, r.Release, r.Why, level, fmt.Sprint(passed), fmt.Sprint(skipped),
			fmt.Sprint(len(r.problems())+len(missing)), r.date(), strings.Join(missing, ", "))
	}
	return t.String()
}

// notRun are the suites of the cell without a result.
func (r *result) notRun() (names []string) {
	i := slices.IndexFunc(cells, func(c cell) bool { return c.name == r.Cell })
	if i < 0 {
		return nil // a former cell
	}
	for _, s := range cells[i].suites {
		if !r.ran(s) {
			names = append(names, s.name())
		}
	}
	return names
}

func (r *result) ran(s suite) bool {
	return slices.ContainsFunc(r.Suites,
		func(n suiteResult) bool { return n.Name == s.name() && n.Passed > 0 })
}

func (r *result) tests() (passed, skipped int) {
	for _, s := range r.Suites {
		passed += s.Passed
		skipped += len(s.Skips)
	}
	return passed, skipped
}

// date is the date of the oldest part of the result.
func (r *result) date() string {
	var oldest string
	for _, s := range r.Suites {
		if oldest == "" || s.Date < oldest {
			oldest = s.Date
		}
	}
	return oldest
}

// missingTable shows what doctor finds lacking in each cell.
func missingTable(all []*result) string {
	t := page.NewTable("cell", "lacks")
	for _, r := range all {
		for _, what := range append(slices.Clone(r.Missing), r.Lacks...) {
			t.Row(r.Cell, strings.ReplaceAll(what, r.Release, "this kernel"))
		}
	}
	return t.String()
}

// gives is what each guarantee level means for a user.
var gives = map[int]string{
	2: "the daemon ends sessions without a race, from user space",
	3: "the daemon has the kernel end a session in one call",
	4: "the root's exit ends its session inside the kernel, with the daemon dead or stopped",
}

// levelTable shows the promised levels, each with the kernels on which it was measured, and sessions were ended.
func levelTable(all []*result) string {
	t := page.NewTable("kernel", "level", "gives", "measured on")
	for _, p := range []struct {
		kernel string
		level  int
		none   string // the cell's text if nothing was measured; "": no row
	}{
		{"6.16 or newer, not PREEMPT_RT", 4, "not measured"},
		{"6.13 to 6.15, and PREEMPT_RT", 3, "not measured"},
		{"5.10 to 6.12", 2, ""},
	} {
		var on []string
		for _, r := range all {
			release, _, _ := strings.Cut(r.Release, "-")
			release, _, _ = strings.Cut(release, "+")
			if strings.Contains(r.Release, "-rt-") {
				release += " PREEMPT_RT"
			}
			if strings.HasSuffix(r.Release, "-arm64") {
				release += " (arm64)"
			}
			if r.Level == p.level && promised(r.Release) == p.level && r.ran(basics) &&
				len(r.problems()) == 0 && !slices.Contains(on, release) {
				on = append(on, release)
			}
		}
		measured := p.none
		if len(on) > 0 {
			measured = strings.Join(on, ", ")
		}
		if measured != "" {
			t.Row(p.kernel, fmt.Sprint(p.level), gives[p.level], measured)
		}
	}
	return t.String()
}
