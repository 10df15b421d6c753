package display

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Tone is how much something matters to the reader.
type Tone uint8

// The tones.
const (
	Plain Tone = iota
	Faint
	Warn
	Bad
)

// Equal is how many processes of which the same is said have a row each; more share one.
const Equal = 3

// Names are how a list names processes.
type Names struct {
	Exact   bool // each process has a row, and is named by its start, too
	Most    int  // rows, but for those that are never left out; 0: all
	Command func(*api.Process) string
}

// PID names a process by number.
func (n *Names) PID(r api.Ref) string {
	if n.Exact {
		return r.String()
	}
	return fmt.Sprint(r.PID)
}

func (n *Names) process(p *api.Process) string { return n.PID(p.Ref) + " " + n.Command(p) }

// Said is what a row says of its processes.
type Said struct {
	Tone
	Command, How string
	Leftover     bool
	holds        string
	alone        bool // its processes have a row each, which is never left out
}

// Row is a process and what is said of it, or many of which the same is said.
type Row struct {
	Refs []api.Ref
	PID  string // "4130", or "×9"
	Said
}

func (n *Names) row(p *api.Process, s Said) Row {
	s.Command = InContainer(n.Command(p), p.Container)
	return Row{[]api.Ref{p.Ref}, n.PID(p.Ref), s}
}

// Note is a line below the rows.
type Note struct {
	Tone
	Text string
	Lock *api.Lock // that it is about, or nil
}

// together makes one row of many that say the same, and leaves out rows that are too many.
func (n *Names) together(rows []Row) (all []Row, notes []Note) {
	equal, first, rest := map[Said]int{}, map[Said]int{}, map[string]int{}
	for i := range rows {
		equal[rows[i].Said]++
	}
	for _, r := range rows {
		at, known := first[r.Said]
		switch many := equal[r.Said] > Equal && !r.alone && !n.Exact; {
		case many && known:
			all[at].Refs = append(all[at].Refs, r.Refs...)
			continue
		case !r.alone && n.Most > 0 && len(all) >= n.Most:
			rest[r.How]++
			continue
		case many:
			first[r.Said], r.PID = len(all), fmt.Sprintf("×%d", equal[r.Said])
		}
		all = append(all, r)
	}
	for _, how := range slices.Sorted(maps.Keys(rest)) {
		notes = append(notes, Note{Text: strings.TrimSuffix(fmt.Sprintf("… %d more: %s", rest[how], how), ": ")})
	}
	return all, notes
}
