package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// hiding is a world whose processes have secrets, also those that ran before any event.
type hiding struct{ *world }

var secret = []string{"agent", "--token=s3cret"}

func (hiding) Redact(argv []string) []string { return redact.Argv(argv) }

func (hiding) Tree(id string) []api.Node {
	return []api.Node{{Process: api.Process{Ref: api.Ref{PID: 3, StartNS: 3}, Session: id, Argv: slices.Clone(secret)}}}
}

// TestHidden: no command line has its secrets, wherever it came from: a line of a snapshot, a tree,
// an exec, an orphan and what a broker was asked for.
func TestHidden(t *testing.T) {
	w := &world{}
	m := New(here, "boot", hiding{w})
	check := func(what string, argv []string) {
		t.Helper()
		if want := []string{"agent", "--token=[redacted]"}; !slices.Equal(argv, want) {
			t.Errorf("%s: %q, want %q", what, argv, want)
		}
	}
	primed, run := api.Ref{PID: 2, StartNS: 2}, api.Ref{PID: 4, StartNS: 4}
	m.Prime(&api.Event{Head: api.Head{Kind: "process"}, Process: &api.Process{Ref: primed, Session: "aaaaaa", Argv: slices.Clone(secret)}})
	w.event("exec", run, func(e *api.Event) { e.Process.Argv = slices.Clone(secret) })
	w.feed(m)
	for what, ref := range map[string]api.Ref{"snapshot": primed, "tree": {PID: 3, StartNS: 3}, "exec": run} {
		check(what, m.processes[ref].Image.Argv)
	}
	r := m.Orphans("aaaaaa", []api.Orphan{{Process: api.Process{Ref: run, Argv: slices.Clone(secret)},
		Brokered: &api.Brokered{Asked: &api.Process{Ref: primed, Argv: slices.Clone(secret)}}}}, time.Now())
	check("orphan", r.Orphans[0].Argv)
	check("request to a broker", r.Orphans[0].Brokered.Asked.Argv)
}

// TestExitTwice: an exit that comes twice, as it may after events were lost, ends the span once.
func TestExitTwice(t *testing.T) {
	w, m := newWorld()
	p := w.fork(root)
	w.exit(p, 0)
	w.exit(p, 0)
	ends := ""
	for _, r := range w.feed(m) {
		ends += fmt.Sprint(r.Kind, len(r.Ended), " ")
	}
	require.Equal(t, ends, "fork0 exit1 exit0 ")
}
