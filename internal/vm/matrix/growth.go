//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
)

// growthLimit is by how much a program may grow, in percent of the instructions that
// the verifier visited when the results were written.
const growthLimit = 20

// grown lists the programs that changed: larger than the limit allows, new, or not
// loaded any more. Running the suite again writes the new numbers, for a person to
// check.
func grown(before, now map[string]int) (problems []string) {
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := before[name]
		is, has := now[name]
		switch {
		case !had:
			problems = append(problems, fmt.Sprintf("%s: %d instructions verified, and none in the results", name, is))
		case !has:
			problems = append(problems, fmt.Sprintf("%s is not loaded any more", name))
		case is*100 > was*(100+growthLimit):
			problems = append(problems, fmt.Sprintf("%s: %d instructions verified, more than %d %% above the %d in the results", name, is, growthLimit, was))
		}
	}
	return problems
}

// judgeGrowth compares what the verifier visited with the stored results.
func (c *cell) judgeGrowth(r *result, problem func(string, ...any)) {
	before, err := c.load()
	if err != nil {
		problem("%v", err)
		return
	}
	if before == nil || len(r.Verified) == 0 {
		problem("no count of verified instructions to compare")
		return
	}
	for _, text := range grown(before.Verified, r.Verified) {
		problem("%s; if that is right: make test-kernels KERNEL=%s SUITE='^verifier$'", text, c.series)
	}
}
