package display

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Chain is the way from the root of a session down to a process, whose edges run upwards.
// Each child has the command that it ran when it created the next one, if that is known,
// and is live or has exited as far as its creator's end of that edge says.
func Chain(edges []api.Edge) []api.Edge {
	chain := slices.Clone(edges)
	for i := range chain[min(1, len(chain)):] {
		creator, p := edges[i].Creator, &chain[i+1].Child
		if creator == nil {
			continue
		}
		if len(creator.Argv) > 0 {
			p.Argv, p.Comm, p.ArgvTruncated = creator.Argv, creator.Comm, false
		}
		p.State, p.Exited = api.StateLive, nil
		if !creator.Alive {
			p.State, p.Exited = api.StateExited, creator.Exited
		}
	}
	slices.Reverse(chain)
	return chain
}

// StepNotes says what is unusual about a step of a chain: evidence other than the fork
// itself, other parents, a creator that is not known.
func StepNotes(e *api.Edge, name func(api.Ref) string, clock func(*time.Time) string) (notes []string) {
	note := func(format string, args ...any) {
		notes = append(notes, name(e.Child.Ref)+": "+fmt.Sprintf(format, args...))
	}
	if e.Creator == nil && e.Kind != "root" {
		note("its creator is older than the tracing")
	}
	s, weak := sourced(e.Evidence), e.Evidence.Confidence == "weak"
	if s != "fork" && s != "root" || weak {
		note("evidence %s, %s", Text(cmp.Or(s, "none")), Text(cmp.Or(e.Evidence.Confidence, "strong")))
	}
	for _, r := range e.Reparented {
		move := "reparented"
		if r.From != nil {
			move += " from " + name(*r.From)
		}
		if r.To != nil {
			move += " to " + name(*r.To)
		}
		if r.Time != nil {
			move += " at " + clock(r.Time)
		}
		note("%s", move)
	}
	return notes
}

// Evidence says how it is known that a process belongs to its session.
func Evidence(e *api.Evidence) string {
	s := sourced(*e)
	if e.Confidence == "weak" {
		s += ", weak"
	}
	return Text(s)
}

func sourced(e api.Evidence) string {
	if e.Source == "" {
		return e.Kind
	}
	return e.Kind + " (" + e.Source + ")"
}

// Indent stands before a step of a chain: its depth instead of lines if that is more than most.
func Indent(depth, most int) string {
	switch {
	case depth > most:
		return fmt.Sprintf("[%d] ", depth)
	case depth > 0:
		return strings.Repeat("   ", depth-1) + "└─ "
	}
	return ""
}

// Gone says that a creator in a chain has exited, and when; "" if it is alive.
func Gone(p *api.Process, clock func(*time.Time) string) string {
	switch {
	case p.State != api.StateExited:
		return ""
	case p.Exited == nil:
		return "exited"
	}
	return "exited " + clock(p.Exited)
}
