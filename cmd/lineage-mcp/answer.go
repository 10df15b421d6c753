//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Of one answer: half is text, half structured.
const (
	textBytes    = 4<<10 - 64
	itemBytes    = 3 << 10 // calls included
	callBytes    = itemBytes / 2
	noteBytes    = 1<<10 - 256
	stepBytes    = 1200 // of one item
	portBytes    = 400
	commandBytes = 200
	stepCommand  = 80
	callCommand  = 40
	callPorts    = 16
)

type item struct {
	Process  string   `json:"process" jsonschema:"PID@START, as the other tools want it"`
	Command  string   `json:"command"`
	Started  string   `json:"started,omitempty"`
	Orphan   bool     `json:"orphan,omitempty" jsonschema:"the process that started it is dead"`
	Creator  string   `json:"creator,omitempty" jsonschema:"PID@START of the process that started it"`
	Ports    []string `json:"ports,omitempty" jsonschema:"that it listens on"`
	Call     string   `json:"call,omitempty" jsonschema:"the tool call that started it, as hooks of this agent reported it"`
	Why      string   `json:"why,omitempty"`
	Outcome  string   `json:"outcome,omitempty"`
	Killable *bool    `json:"killable,omitempty"`
	Steps    []string `json:"steps,omitempty" jsonschema:"who started it, up to the root of the session"`
}

// callItem is a tool call that has live processes.
type callItem struct {
	Call      string  `json:"call" jsonschema:"its id, as end_branch wants it; of several that were open at once: their ids"`
	Ambiguous bool    `json:"ambiguous,omitempty" jsonschema:"each process is of one of these calls, unknown of which: no end of a call ends them"`
	Open      bool    `json:"open,omitempty" jsonschema:"it is not over"`
	Processes int     `json:"processes"`
	CPUs      float64 `json:"cpus" jsonschema:"that they use now"`
	RSSBytes  uint64  `json:"rss_bytes"`
	Ports     []int   `json:"ports,omitempty"`
	Left      string  `json:"left" jsonschema:"what runs"`
}

// answer is what a tool returns: as a document, and as the same in text. Some agents show
// their model one of them, some the other.
type answer struct {
	Notes   []string   `json:"notes,omitempty" jsonschema:"about all items, or what is not among them"`
	Calls   []callItem `json:"calls,omitempty" jsonschema:"the live processes by the tool call that started them, the busiest first"`
	Items   []item     `json:"items"`
	More    int        `json:"more,omitempty" jsonschema:"items that did not fit"`
	Plan    string     `json:"plan,omitempty" jsonschema:"the token that end_branch needs"`
	Verdict string     `json:"verdict,omitempty"`
}

func (a *answer) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// fit leaves out what does not fit: notes and items at the end.
func (a *answer) fit() {
	a.Notes = within(a.Notes, noteBytes)
	if a.Items == nil {
		a.Items = []item{}
	}
	size := 0
	for i := range a.Calls {
		if size += encoded(a.Calls[i]); size > callBytes {
			a.note("%s did not fit", display.Count(len(a.Calls)-i, "more call", "more calls"))
			a.Calls, size = a.Calls[:i], size-encoded(a.Calls[i])
			break
		}
	}
	for i := range a.Items {
		if size += encoded(a.Items[i]); size > itemBytes {
			a.More, a.Items = len(a.Items)-i, a.Items[:i]
			return
		}
	}
}

func (a *answer) text() string {
	all := slices.Clone(a.Notes)
	for i := range a.Calls {
		all = append(all, a.Calls[i].Left)
	}
	for i := range a.Items {
		all = append(all, a.Items[i].line())
		for _, step := range a.Items[i].Steps {
			all = append(all, "  "+step)
		}
	}
	if a.More > 0 {
		all = append(all, fmt.Sprintf("… and %d more", a.More))
	}
	return strings.Join(within(all, textBytes), "\n") + "\n"
}

// within leaves out lines in the middle, and says how many, if all of them do not fit: the first
// and the last say most.
func within(all []string, most int) []string {
	first, last, size := 0, len(all), 0
	for first < last {
		next := first
		if first > len(all)-last {
			next = last - 1
		}
		if size += encoded(all[next]); size > most {
			return slices.Concat(all[:first], []string{fmt.Sprintf("… and %d more", last-first)}, all[last:])
		}
		if next == first {
			first++
		} else {
			last--
		}
	}
	return all
}

// encoded is the size of a value in a message: JSON escapes some bytes by six.
func encoded(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return textBytes
	}
	return len(b) + 1
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
	return display.Command(api.Unwrapped(p.Argv), p.Comm, p.ArgvTruncated, commandBytes)
}

func (x *item) line() string {
	words := []string{x.Process, x.Command}
	if x.Orphan {
		words = append(words, "(orphan)")
	}
	if len(x.Ports) > 0 {
		words = append(words, "listens on "+strings.Join(x.Ports, ", "))
	}
	if x.Call != "" {
		words = append(words, "— started by "+x.Call)
	}
	if x.Why != "" {
		words = append(words, "— "+x.Why)
	}
	if x.Killable != nil && !*x.Killable {
		words = append(words, "— would not be ended")
	}
	if x.Outcome != "" {
		words = append(words, "— "+x.Outcome)
	}
	return strings.Join(words, "  ")
}

func portsOf(all []api.Port) []string { return within(display.Holding(all, nil), portBytes) }

func (a *answer) unknown(what []string) {
	for _, u := range what {
		a.note("not known: %s", display.Text(u))
	}
}
