package ending

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestWhere: a container is found by its whole name or a long part of its id, and nothing else is.
func TestWhere(t *testing.T) {
	web := &api.Container{ID: "0123456789abcdef", Name: "web"}
	work := &api.Container{ID: "aaaa", Name: "work", Pod: "agent-7f", Namespace: "build"}
	for want, w := range map[string][]Where{
		"any ": {{}},
		"web ": {{Container: "web"}, {Container: "0123456789ab"}, {Container: web.ID}},
		"work": {{Container: "work"}, {Pod: "agent-7f"}, {Pod: "build/agent-7f", Container: "work"}},
		"none": {{Container: "we"}, {Container: "0123456789a"}, {Container: "0123456789ac"}, {Container: "aaaa"}, {Pod: "agent"}, {Pod: "/agent-7f"}, {Container: "web", Pod: "agent-7f"}, {Pod: "/"}},
	} {
		for _, w := range w {
			got := "none"
			switch {
			case w.Holds(nil):
				got = "any "
			case w.Holds(web):
				got = "web "
			case w.Holds(work):
				got = "work"
			}
			require.Equal(t, got, want)
		}
	}
}
