//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Of one answer: half is text, half structured.
const (
	textBytes    = 4 << 10
	itemBytes    = 3 << 10
	commandBytes = 200
)

// item is one process in an answer.
type item struct {
	Process  string   `json:"process" jsonschema:"PID@START, as the other tools want it"`
	Command  string   `json:"command"`
	Started  string   `json:"started,omitempty"`
	Orphan   bool     `json:"orphan,omitempty" jsonschema:"the process that started it is dead"`
	Creator  string   `json:"creator,omitempty" jsonschema:"PID@START of the process that started it"`
	Ports    []string `json:"ports,omitempty" jsonschema:"that it listens on"`
	Why      string   `json:"why,omitempty"`
	Outcome  string   `json:"outcome,omitempty"`
	Killable *bool    `json:"killable,omitempty"`
}

// answer is what a tool returns besides text.
type answer struct {
	Items   []item `json:"items"`
	More    int    `json:"more,omitempty" jsonschema:"items that did not fit"`
	Plan    string `json:"plan,omitempty" jsonschema:"the token that end_branch needs"`
	Verdict string `json:"verdict,omitempty"`
}

// fit leaves out items at the end, until the rest fits.
func (a *answer) fit() {
	size := 0
	for i := range a.Items {
		b, err := json.Marshal(a.Items[i])
		if size += len(b) + 1; err != nil || size > itemBytes {
			a.More, a.Items = len(a.Items)-i, a.Items[:i]
			return
		}
	}
}

// lines joins lines up to the limit, and says how many are left out.
func lines(all ...string) string {
	var b strings.Builder
	for i, line := range all {
		if b.Len()+len(line) > textBytes-64 {
			fmt.Fprintf(&b, "… and %d more lines\n", len(all)-i)
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

func processItem(p *api.Process) item {
	x := item{Process: p.Ref.String(), Command: command(p), Orphan: p.Orphan}
	if p.Started != nil {
		x.Started = p.Started.UTC().Format(time.RFC3339)
	}
	if p.Creator != nil {
		x.Creator = p.Creator.String()
	}
	return x
}

func command(p *api.Process) string {
	return display.Command(p.Argv, p.Comm, p.ArgvTruncated, commandBytes)
}

func (x *item) line() string {
	words := []string{x.Process, x.Command}
	if x.Orphan {
		words = append(words, "(orphan)")
	}
	if len(x.Ports) > 0 {
		words = append(words, "listens on "+strings.Join(x.Ports, ", "))
	}
	if x.Why != "" {
		words = append(words, "— "+x.Why)
	}
	if x.Outcome != "" {
		words = append(words, "— "+x.Outcome)
	}
	return strings.Join(words, "  ")
}

func itemLines(items []item) (all []string) {
	for i := range items {
		all = append(all, items[i].line())
	}
	return all
}

func port(p *api.Port) string {
	if p.Proto == "unix" {
		return "unix " + display.Text(p.Addr)
	}
	return fmt.Sprintf("%s %s:%d", p.Proto, display.Text(p.Addr), p.Port)
}
