package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

func TestBreaker(t *testing.T) {
	for want, uids := range map[string][]int{
		"the circuit breaker is open":                                  nil,
		"the circuit breaker is open for uid 1000":                     {1000},
		"the circuit breaker is open for uid 0, 1000":                  {0, 1000},
		"the circuit breaker is open for uid 1, 2, 3, 4, 5 and 2 more": {1, 2, 3, 4, 5, 6, 7},
	} {
		if got := Breaker(api.Breaker{Open: true, UIDs: uids}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
