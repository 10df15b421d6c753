package label

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
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
