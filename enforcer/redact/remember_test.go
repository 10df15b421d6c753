package redact

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestRemembering(t *testing.T) {
	asked := map[string]int{}
	hide := Remembering(func(argv []string) []string {
		asked[argv[0]]++
		return Argv(argv)
	})
	for range 2 {
		if got := hide([]string{"login", "--token", "abc"}); !slices.Equal(got, []string{"login", "--token", Hidden}) {
			t.Errorf("hidden: %q", got)
		}
		hide([]string{"login --token", "abc"}) // another command line with the same text
	}
	if asked["login"] != 1 || asked["login --token"] != 1 {
		t.Errorf("asked %v times", asked)
	}
	if got := hide(nil); got != nil {
		t.Errorf("of nothing: %q", got)
	}
	// It does not grow without a bound: old results are dropped.
	for i := range maxRemembered / 4096 {
		hide([]string{strconv.Itoa(i), strings.Repeat("x", 4096)})
	}
	if hide([]string{"login", "--token", "abc"}); asked["login"] != 2 {
		t.Errorf("asked %d times", asked["login"])
	}
}

// TestRememberingEmpty: many empty arguments take more memory than their text.
func TestRememberingEmpty(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	hide := Remembering(func(argv []string) []string { return slices.Clone(argv) })
	before := heap()
	for i := range 1000 {
		hide(append(make([]string, 4000), strconv.Itoa(i)))
	}
	if after := heap(); after > before+2*maxRemembered {
		t.Errorf("the heap has grown by %d KiB", (after-before)>>10)
	}
	runtime.KeepAlive(hide)
}

// Readers of the daemon share it.
func TestRememberingAtOnce(t *testing.T) {
	hide := Remembering(func(argv []string) []string { return Argv(argv) })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				if got := hide([]string{"login", "--token", strconv.Itoa(i)}); got[2] != Hidden {
					t.Errorf("%q", got)
				}
			}
		})
	}
	all.Wait()
}
