package display

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

// A chain runs from the root down, and each process has what it ran when it created the
// next: later it may have run something else.
func TestChain(t *testing.T) {
	exited := time.Date(2026, 3, 4, 12, 3, 8, 0, time.UTC)
	process := func(pid int, argv ...string) api.Process {
		return api.Process{Ref: api.Ref{PID: pid}, Comm: argv[0], Argv: argv, ArgvTruncated: true}
	}
	edges := []api.Edge{
		{Child: process(3, "sleep", "9"), Creator: &api.EdgeEnd{Ref: api.Ref{PID: 2}, Comm: "sh", Argv: []string{"sh", "-c", "sleep 9 &"}, Exited: &exited}},
		{Child: process(2, "true"), Creator: &api.EdgeEnd{Ref: api.Ref{PID: 1}, Alive: true}},
		{Child: process(1, "bash"), Kind: "root"},
	}
	chain := Chain(edges)
	var got []string
	for _, e := range chain {
		got = append(got, fmt.Sprintf("%d %s %s", e.Child.PID, Command(e.Child.Argv, e.Child.Comm, e.Child.ArgvTruncated, 0), e.Child.State))
	}
	require.Equal(t, fmt.Sprint(got), "[1 bash… live 2 sh -c 'sleep 9 &' exited 3 sleep 9… ]")
	if chain[1].Child.Exited != &exited || edges[0].Child.PID != 3 || edges[1].Child.Comm != "true" {
		t.Errorf("%+v of %+v", chain, edges)
	}
	require.Equal(t, len(Chain(nil)), 0)
}

// Only what is unusual about a step is said.
func TestStepNotes(t *testing.T) {
	name := func(r api.Ref) string { return fmt.Sprint(r.PID) }
	clock := func(*time.Time) string { return "noon" }
	child, creator := api.Process{Ref: api.Ref{PID: 7}}, &api.EdgeEnd{}
	for _, tt := range []struct {
		edge api.Edge
		want []string
	}{
		{api.Edge{Creator: creator, Kind: "fork", Evidence: api.Evidence{Kind: "fork", Confidence: "strong"}}, nil},
		{api.Edge{Kind: "root", Evidence: api.Evidence{Kind: "root", Confidence: "strong"}}, nil},
		{api.Edge{Creator: creator, Evidence: api.Evidence{Kind: "fork", Confidence: "weak"}}, []string{"7: evidence fork, weak"}},
		{api.Edge{Kind: "adopted", Evidence: api.Evidence{Kind: "adopted", Source: "ppid"}},
			[]string{"7: its creator is older than the tracing", "7: evidence adopted (ppid), strong"}},
		{api.Edge{Creator: creator, Evidence: api.Evidence{Kind: "fork"},
			Reparented: []api.Reparents{{From: &api.Ref{PID: 2}, To: &api.Ref{PID: 1}, Time: &time.Time{}}, {}}},
			[]string{"7: reparented from 2 to 1 at noon", "7: reparented"}},
	} {
		tt.edge.Child = child
		if got := StepNotes(&tt.edge, name, clock); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.edge, got, tt.want)
		}
	}
}
