package panes

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

func TestPorts(t *testing.T) {
	for _, tt := range []struct {
		ports         []int
		narrow, wider string
	}{
		{nil, "", ""},
		{[]int{5173}, "5173", "5173"},
		{[]int{80, 443}, "80 443", "80 443"},
		{[]int{5173, 5174}, "5173+1", "5173 5174"},
		{[]int{51730, 51731, 51732}, "51730+2", "51730 51731 51732"},
		{[]int{51730, 51731, 51732, 51733}, "51730+3", "51730 51731+2"},
		{[]int{80, 81, 82, 83, 84, 85, 86}, "80 81+5", "80 81 82 83 84+2"},
	} {
		require.Equal(t, Ports(tt.ports, 7), tt.narrow)
		require.Equal(t, Ports(tt.ports, 17), tt.wider)
	}
}

// A call is known by its tool and by the end of its id, whatever its agent made of them.
func TestShortCall(t *testing.T) {
	for _, tt := range []struct{ tool, id, more, want string }{
		{"Bash", "toolu_01AbCdEfAb3", "", "⟨Bash …Ab3⟩"},
		{"Bash", "1234", "", "⟨Bash 1234⟩"},
		{"Bash", "12345", " +2", "⟨Bash …345 +2⟩"},
		{"mcp__editor__replace", "7", "", "⟨mcp__editor… 7⟩"},
		{"", "toolu_01AbCdEfAb3", "", "⟨…Ab3⟩"},
		{"\x1b[2J", "a\nb", "", `⟨\x1b[2J a\nb⟩`},
	} {
		l := &Labels{Theme: *ink.New("auto")}
		require.Equal(t, l.ShortCall(&api.Call{Tool: tt.tool, ID: tt.id}, tt.more), tt.want)
	}
}
