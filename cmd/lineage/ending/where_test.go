package ending

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestWhere: of a container, which is found by its whole name or a long part of its id, only its sessions are chosen.
func TestWhere(t *testing.T) {
	sessions := []api.Session{
		{ID: "free", State: "active"},
		{ID: "web", State: "active", Container: &api.Container{ID: "0123456789abcdef", Name: "web"}},
		{ID: "work", State: "active", Container: &api.Container{ID: "aaaa", Name: "work", Pod: "agent-7f", Namespace: "build"}},
	}
	for want, w := range map[string][]Where{
		"free web work": {{}},
		"web":           {{Container: "web"}, {Container: "0123456789ab"}, {Container: "0123456789abcdef"}},
		"work":          {{Container: "work"}, {Pod: "agent-7f"}, {Pod: "build/agent-7f", Container: "work"}},
		"":              {{Container: "we"}, {Container: "0123456789a"}, {Container: "0123456789ac"}, {Container: "aaaa"}, {Pod: "agent"}, {Pod: "/agent-7f"}, {Container: "web", Pod: "agent-7f"}, {Pod: "/"}},
	} {
		for _, w := range w {
			ids, _ := chosen(sessions, 0, true, w, nil)
			require.Equal(t, strings.Join(ids, " "), want)
		}
	}
}
