//go:build linux

package procfs

import (
	"os"
	"runtime"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A live process counts as alive when a signal interrupts the call, as signals of Go's
// scheduler do on a busy host.
func TestExitedUnderSignals(t *testing.T) {
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	asks := unix.Gettid()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				if err := unix.Tgkill(os.Getpid(), asks, unix.SIGURG); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for n := range 200000 {
		if Exited(pidfd) {
			t.Errorf("after %d times: this process is said to be dead", n)
			break
		}
	}
	close(done)
	<-stopped
}
