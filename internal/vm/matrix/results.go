//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const resultsDir = "testdata/vm/results"

// result is the result of a cell, as it is stored.
type result struct {
	Cell     string
	Why      string
	Release  string
	Level    int
	Missing  []string `json:",omitempty"` // what is missing for the next level
	Lacks    []string `json:",omitempty"` // what doctor found missing
	Problems []string `json:",omitempty"` // with the machine and with doctor's output, in the last run
	Suites   []suiteResult
}

type suiteResult struct {
	Name           string
	Date           string
	Passed, Failed int
	Skips          []skip `json:",omitempty"`
	Seconds        int
	Problems       []string `json:",omitempty"`
}

// problems are all problems of the cell.
func (r *result) problems() []string {
	all := slices.Clone(r.Problems)
	for _, s := range r.Suites {
		for _, p := range s.Problems {
			all = append(all, s.Name+": "+p)
		}
	}
	return all
}

// keep copies the suites that were not run now from an earlier run under the same
// kernel.
func (r *result) keep(c *cell, earlier *result) {
	if earlier == nil || earlier.Release != r.Release {
		return
	}
	ran := r.Suites
	r.Suites = nil
	for _, s := range c.suites {
		named := func(n suiteResult) bool { return n.Name == s.name() }
		if i := slices.IndexFunc(ran, named); i >= 0 {
			r.Suites = append(r.Suites, ran[i])
		} else if i := slices.IndexFunc(earlier.Suites, named); i >= 0 {
			r.Suites = append(r.Suites, earlier.Suites[i])
		}
	}
}

func (c *cell) resultFile() string { return filepath.Join(resultsDir, fileName(c.name)+".json") }

// save stores the result of a run of the cell.
func (c *cell) save(r *result) error {
	earlier, err := c.load()
	if err != nil {
		return err
	}
	r.keep(c, earlier)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(resultsDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.resultFile(), append(text, '\n'), 0o644)
}

// load returns the last result of the cell, nil if it was never run.
func (c *cell) load() (*result, error) {
	text, err := os.ReadFile(c.resultFile())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", c.resultFile(), err)
	}
	return r, nil
}

// loadResults returns the last result of each cell that was ever run, in the order of
// the cells.
func loadResults() ([]*result, error) {
	var all []*result
	for i := range cells {
		r, err := cells[i].load()
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	return all, nil
}
