package redact

import (
	"strings"
	"sync"
)

// maxRemembered bounds the command lines whose result is remembered.
const maxRemembered = 4096

// Remembering wraps hide and remembers the results, because most command lines come again.
// The results are shared and must not be changed. It may be called from any goroutine.
func Remembering(hide func(argv []string) []string) func(argv []string) []string {
	var mu sync.Mutex
	known := make(map[string][]string)
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
		if len(known) >= maxRemembered {
			clear(known)
		}
		known[key] = hidden
		return hidden
	}
}
