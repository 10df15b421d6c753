//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// No thread keeps its priority: neither one made while the others are favoured, nor one
// that the kernel was making then, which the second call finds.
func TestFavour(t *testing.T) {
	require.Root(t)
	for range 20 {
		out, err := exec.Command("/proc/self/exe", "lngtest-favoured").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// favoured is a process that makes and ends threads while favour runs.
func favoured() int {
	done, ended := make(chan struct{}), make(chan struct{})
	const makers = 4
	for range makers {
		go func() {
			defer func() { ended <- struct{}{} }()
			for {
				select {
				case <-done:
					return
				default:
				}
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					runtime.LockOSThread() // and never unlocked: the thread ends with it
				}()
				<-gone
			}
		}()
	}
	err := favour()
	close(done)
	for range makers {
		<-ended
	}
	// Threads that end may make others, for a moment.
	for names, same := threads(), 0; same < 10; time.Sleep(time.Millisecond) {
		now := threads()
		if same++; !slices.Equal(names, now) {
			names, same = now, 0
		}
	}
	err = errors.Join(err, favour())
	for _, thread := range threads() {
		tid, _ := strconv.Atoi(thread)
		if now, is := unix.Getpriority(unix.PRIO_PROCESS, tid); is == nil && 20-now != niceness {
			err = fmt.Errorf("thread %d has nice %d", tid, 20-now)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func threads() (names []string) {
	all, _ := os.ReadDir("/proc/self/task")
	for _, t := range all {
		names = append(names, t.Name())
	}
	return names
}
