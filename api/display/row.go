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
	rest := map[string]int{}
	for _, like := range Alike(rows, func(r *Row) (Said, int) {
		if r.alone || n.Exact {
			return r.Said, 0
		}
		return r.Said, Equal + 1
	}) {
		r := like[0]
		if !r.alone && n.Most > 0 && len(all) >= n.Most {
			rest[r.How] += len(like)
			continue
		}
		if len(like) > 1 {
			r.Refs, r.PID = nil, fmt.Sprintf("×%d", len(like))
			for _, x := range like {
				r.Refs = append(r.Refs, x.Refs...)
			}
		}
		all = append(all, r)
	}
	for _, how := range slices.Sorted(maps.Keys(rest)) {
		notes = append(notes, Note{Text: strings.TrimSuffix(fmt.Sprintf("… %d more: %s",
			rest[how], how), ": ")})
	}
	return all, notes
}

// Alike groups elements with the same key, at the place of the first, if there are at least as many as key says
// with it. With 0 an element stays alone.
func Alike[T any, K comparable](all []T, key func(*T) (K, int)) (groups [][]T) {
	counts, at := map[K]int{}, map[K]int{}
	for i := range all {
		if k, least := key(&all[i]); least > 0 {
			counts[k]++
		}
	}
	for i := range all {
		k, least := key(&all[i])
		if least > 0 && counts[k] >= least {
			if n, known := at[k]; known {
				groups[n] = append(groups[n], all[i])
				continue
			}
			at[k] = len(groups)
		}
		groups = append(groups, all[i:i+1:i+1])
	}
	return groups
}

// Some are names of the first of all, and how many more there are.
func Some[T any](all []T, most int, name func(*T) string) (named []string) {
	for i := range all[:min(len(all), most)] {
		named = append(named, name(&all[i]))
	}
	if n := len(all) - most; n > 0 {
		named = append(named, fmt.Sprintf("%d more", n))
	}
	return named
}
