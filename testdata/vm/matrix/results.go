//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

const resultsDir = "testdata/vm/results"

// result is what came of a cell, as it is kept.
type result struct {
	Cell     string
	Why      string
	Date     string
	Release  string
	Level    int
	Missing  []string `json:",omitempty"` // what the next level lacks
	Lacks    []string `json:",omitempty"` // what doctor found missing
	Suites   []suiteResult
	Figures  []string       `json:",omitempty"`
	Verified map[string]int `json:",omitempty"` // instructions that the verifier went through, by program
	Problems []string       `json:",omitempty"`
}

type suiteResult struct {
	Name           string
	Passed, Failed int
	Skips          []skip `json:",omitempty"`
	Seconds        int
}

func (r *result) save() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(resultsDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(resultsDir, fileName(r.Cell)+".json"), append(text, '\n'), 0o644)
}

// loadResults gives the last result of each cell that was ever run, in the
// order of the cells.
func loadResults() ([]*result, error) {
	var all []*result
	for i := range cells {
		text, err := os.ReadFile(filepath.Join(resultsDir, fileName(cells[i].name)+".json"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r := new(result)
		if err := json.Unmarshal(text, r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
