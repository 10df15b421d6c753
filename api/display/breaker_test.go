package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

func TestBreaker(t *testing.T) {
	for want, uids := range map[string][]int{
		"the circuit breaker is open for uid 1000":                     {1000},
		"the circuit breaker is open for uid 0, 1000":                  {0, 1000},
		"the circuit breaker is open for uid 1, 2, 3, 4, 5 and 2 more": {1, 2, 3, 4, 5, 6, 7},
	} {
		require.Equal(t, Breaker(api.Breaker{Open: true, UIDs: uids}), want)
	}
}
