//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// promised is the guarantee level that a kernel of this release must reach.
func promised(release string) int {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 {
		return 4 // whatever it is, it is not an old one
	}
	since := func(m, n int) bool { return major > m || major == m && minor >= n }
	switch {
	case since(6, 16) && !strings.Contains(release, "-rt-"):
		return 4
	case since(6, 13):
		return 3
	}
	return 2
}

// excuses are the valid reasons to skip a test, each with the cells that really lack what the test needs.
var excuses = []struct {
	reason *regexp.Regexp
	holds  func(c *cell, level int) bool
}{
	{regexp.MustCompile(`^(this kernel has |guarantee )?level [12]\b`),
		func(_ *cell, level int) bool { return level < 3 }},
	{regexp.MustCompile(`^(this kernel has |guarantee )?level 3\b`),
		func(_ *cell, level int) bool { return level == 3 }},
	// The program that refuses the fork has a test of its own there.
	{regexp.MustCompile(`^(lsm|fmod_ret) refuses the fork$`),
		func(*cell, int) bool { return true }},
	{regexp.MustCompile(`no version 1 freezer is mounted`),
		func(c *cell, _ int) bool { return c.cgroup != "v1" }},
	{regexp.MustCompile(`^protect the daemon from members: lsm: loads, attaches and never runs, as bpf is not among`),
		func(c *cell, _ int) bool { return c.append == withoutBPF }},
	{regexp.MustCompile(`^lineage: run: --signals session: the kernel`),
		func(c *cell, _ int) bool { return c.series == "5.10" || c.series == "6.1" }},
	// Its numbers are of one kernel.
	{regexp.MustCompile(`testdata/instructions.txt is of another`),
		func(*cell, int) bool { return true }},
	// make test has two CPUs and the sources.
	{regexp.MustCompile(`^one CPU, or no sources to find places in$`),
		func(*cell, int) bool { return true }},
	// The machines have only what is built here; test-brokers has the brokers.
	{regexp.MustCompile(`^no (tmux|at); run make test-brokers$`),
		func(*cell, int) bool { return true }},
	{regexp.MustCompile(`no cgroup of version 2 is mounted`),
		func(c *cell, _ int) bool { return c.cgroup == "v1" }},
}

// unexcused returns what is wrong with skipping for this reason, "" if nothing is. The
// level is the promised one, not the one that was reached.
func unexcused(c *cell, level int, s skip) string {
	for _, e := range excuses {
		if !e.reason.MatchString(s.Reason) {
			continue
		}
		if e.holds(c, level) {
			return ""
		}
		return fmt.Sprintf("%s is skipped, but this kernel should have what it needs: %s", s.Test, s.Reason)
	}
	return fmt.Sprintf("%s is skipped for a reason that is no excuse: %q", s.Test, strings.TrimSpace(s.Reason))
}
