package redact

import (
	"strings"
	"sync"
)

// maxRemembered bounds the command lines of which the result is remembered.
const maxRemembered = 4096

// Remembering hides what hide does, and remembers the results, because most command lines
// come again. These are shared and must not be changed. It may be called from any goroutine.
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
		hidden = hide(argv) // takes long: others need not wait
		mu.Lock()
		defer mu.Unlock()
		if len(known) >= maxRemembered {
			clear(known)
		}
		known[key] = hidden
		return hidden
	}
}
