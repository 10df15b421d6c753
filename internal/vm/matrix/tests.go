//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
)

// A skip is a test that was not run, and why.
type skip struct{ Test, Reason string }

// outcome is what one test binary printed.
type outcome struct {
	passed, failed int
	skips          []skip
	failures       []string // names, with what was printed
}

// event is a line of go tool test2json.
type event struct{ Action, Test, Output string }

var logLine = regexp.MustCompile(`^\s*\w+\.go:\d+: `)

// readTests reads what a test binary printed with -test.v=test2json.
func readTests(output []byte) (outcome, error) {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(output)
	events, err := cmd.Output()
	if err != nil {
		return outcome{}, fmt.Errorf("go tool test2json: %w", err)
	}
	return readEvents(bytes.NewReader(events))
}

func readEvents(r io.Reader) (outcome, error) {
	var o outcome
	printed := map[string]*strings.Builder{}
	for d := json.NewDecoder(r); ; {
		var e event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return o, nil
		}
		if err != nil {
			return o, fmt.Errorf("read test events: %w", err)
		}
		if printed[e.Test] == nil {
			printed[e.Test] = new(strings.Builder)
		}
		switch e.Action {
		case "output":
			printed[e.Test].WriteString(e.Output)
		case "pass":
			if e.Test != "" {
				o.passed++
			}
		case "skip":
			if e.Test != "" {
				o.skips = append(o.skips, skip{e.Test, logged(printed[e.Test].String())})
			}
		case "fail":
			if e.Test != "" {
				o.failed++
				o.failures = append(o.failures, e.Test+":\n"+tail(printed[e.Test].String(), 12))
			}
		}
	}
}

// logged is the last message that a test logged, without its position.
func logged(output string) string {
	var last string
	for line := range strings.Lines(output) {
		if loc := logLine.FindStringIndex(line); loc != nil {
			last = strings.TrimSpace(line[loc[1]:])
		}
	}
	return last
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
