package display

import (
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// breakerNames bounds the users that are named.
const breakerNames = 5

// Breaker describes an open circuit breaker: for whom it is open.
func Breaker(b api.Breaker) string {
	var names []string
	for _, uid := range b.UIDs[:min(len(b.UIDs), breakerNames)] {
		names = append(names, strconv.Itoa(uid))
	}
	text := "the circuit breaker is open for uid " + strings.Join(names, ", ")
	if more := len(b.UIDs) - len(names); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
