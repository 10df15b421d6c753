package redact

import (
	"strings"
	"sync"

	"github.com/lineage-ebpf/lineage/lineage/memory"
)

// maxRemembered bounds the memory of the results, in bytes.
const maxRemembered = 8 << 20

// slot is roughly what an entry of the map takes besides its text.
const slot = 80

// Remembering wraps hide and remembers the results, because most command lines come again.
// The results are shared and must not be changed. It may be called from any goroutine.
func Remembering(hide func(argv []string) []string) func(argv []string) []string {
	var mu sync.Mutex
	known := make(map[string][]string)
	used := 0
	return func(argv []string) []string {
		if len(argv) == 0 {
			return argv
		}
		key := strings.Join(argv, "\x00")
		mu.Lock()
		hidden, ok := known[key]
		mu.Unlock()
		if ok {
			return hidden
		}
		hidden = hide(argv) // slow: other callers need not wait
		mu.Lock()
		defer mu.Unlock()
		if _, ok := known[key]; ok {
			return hidden // another caller was faster
		}
		if used += len(key) + memory.ArgvSize(hidden) + slot; used > maxRemembered {
			known, used = make(map[string][]string), 0 // a cleared map keeps its memory
		}
		known[key] = hidden
		return hidden
	}
}
