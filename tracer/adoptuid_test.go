//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A user's process has children of other uids, one of which forks all the time. Adopted for that user, only the user's own
// are entered and die.
func TestAdoptOfUID(t *testing.T) { everySide(t, testAdoptOfUID) }

func testAdoptOfUID(t *testing.T, o tracer.Options) {
	const user = 1000
	tr := tracertest.New(t, o)
	w := start(t, `exec 2>/dev/null
		sleep 60 & echo $!
		(n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); /bin/true; done; sleep 60) & echo $!
		setpriv --euid 1000 sleep 60 & echo $!
		setpriv --ruid 1000 sleep 60 & echo $!
		setpriv --reuid 1001 --clear-groups sh -c 'setpriv --version >/dev/null; sleep 60' & echo $!
		exec setpriv --reuid 1000 --clear-groups sh -c 'sleep 60 & echo $!; sh -c "sleep 60 & echo \$!; wait" & echo $!; wait'`)
	w.goOn()
	var others, own []uint32
	for range 5 {
		others = append(others, parse(t, w.line()))
	}
	t.Cleanup(func() {
		for _, pid := range others {
			_ = unix.Kill(int(pid), unix.SIGKILL)
		}
	})
	for range 3 {
		own = append(own, parse(t, w.line()))
	}
	id := create(t, tr, w, tracer.SessionSpec{Adopted: true, UID: user})
	total := 0
	for range 50 {
		n, err := tr.Adopt(id, user)
		require.NoError(t, err)
		total += n
	}
	require.Equal(t, total, len(own))
	for _, pid := range own {
		if e, err := tr.Lookup(pid); err != nil || e.Session != id {
			t.Errorf("%d: %+v, %v", pid, e, err)
		}
	}
	require.NoError(t, tr.Snapshot(id, func(p *tracer.Process) error {
		if p.UID != user {
			t.Errorf("%+v", p)
		}
		return nil
	}))
	if s, err := tr.Session(id); err != nil || s.Live != int64(1+len(own)) || s.Forks != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	w.wait()
	settled(t, tr, id)
	for _, pid := range others {
		if err := unix.Kill(int(pid), 0); err != nil {
			t.Errorf("%d: %v", pid, err)
		}
	}
}
