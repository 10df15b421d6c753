//go:build linux

package tracer

import (
	"os/exec"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// A reader that was killed while it polled must not leave the next one asleep while
// events arrive without a wakeup.
func TestReadAfterKilledReader(t *testing.T) {
	require.Root(t)
	o := Options{Dir: "/sys/fs/bpf/lngtest-polling"}
	defer Unload(o.Dir)
	first, err := Open(o)
	require.NoError(t, err)
	first.control.setPolling(true)
	first.Close()
	second, err := Open(o)
	require.NoError(t, err)
	read := make(chan error, 1)
	go func() { read <- second.Read(new(Event)) }()

	child := exec.Command("/bin/cat") // waits for its stdin
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer child.Wait()
	defer in.Close()
	_, err = second.Create(SessionSpec{Root: Identity{PID: uint32(child.Process.Pid)}})
	require.NoError(t, err)
	in.Close()
	select {
	case err := <-read:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Error("the reader sleeps over an event")
	}
	second.Close()
}
