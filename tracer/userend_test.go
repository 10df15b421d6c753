//go:build linux

package tracer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// Two sentences at level 2 at the same time, by one process or by two with the same
// pins: neither fails because of the other's syscall closer, and a sentence that runs
// without the closer attaches it as soon as it can.
func TestSentencesAtOnce(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t), Level: 2}
	first := tracertest.New(t, o)
	second := tracertest.New(t, o)
	closer, err := first.AttachCloser()
	if err != nil || closer == nil {
		t.Fatalf("%v, %v", closer, err)
	}
	w := program(t, "ignoreterm")
	id := create(t, second, w, tracer.SessionSpec{})
	w.goOn()
	w.until("ready")
	require.NoError(t, second.Condemn(id))
	sentenced(t, second, id)
	w.gone()
	w.wait()
	settled(t, second, id)

	require.NoError(t, closer.Close())
	until(t, "it can be attached", func() bool { // when no fork in between holds it
		closer, err = second.AttachCloser()
		return err != nil || closer != nil
	})
	require.NoError(t, err)
	require.NoError(t, closer.Close())
}

// However many sentences run at once, no process gets SIGTERM twice: many programs take
// a second one as a request not to finish their work.
func TestOneTermEach(t *testing.T) {
	const members, sentences = 40, 8
	tr := tracertest.New(t, tracer.Options{Level: 2})
	w := start(t, fmt.Sprintf(`i=0; trap : TERM; while [ $i -lt %d ]; do
		sh -c 'trap "echo term" TERM; echo up; while :; do read x <>%s; done' & i=$((i+1)); done; while :; do wait; done`,
		members, fifo(t)))
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	for range members {
		w.until("up")
	}
	errs := make(chan error, sentences)
	for i := range sentences {
		go func() {
			if i == 0 {
				errs <- tr.End(id, tracer.CauseEnd, time.Hour)
				return
			}
			_, err := tr.Sentence()
			errs <- err
		}()
	}
	for range sentences {
		if err, _ := receive(t, "a sentence is over", errs); err != nil {
			t.Error(err)
		}
	}
	for range members {
		w.until("term")
	}
	require.NoError(t, tr.Condemn(id))
	sentenced(t, tr, id)
	require.Equal(t, bytes.Count(w.rest(), []byte("term")), 0)
	w.wait()
	settled(t, tr, id)
}

// fifo returns a pipe that has no writer.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	return path
}

// A process that may not be signalled, because CAP_KILL is missing, is not entered as
// killed: its receipt would say that it was. And a pass that sends for too long is left to the next one.
func TestNotSignalled(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Level: 2})
	w := startAs(t, 65534, "echo up; exec sleep 30")
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	w.until("up")
	until(t, "it sleeps", func() bool {
		wchan, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", w.pid()))
		return strings.Contains(string(wchan), "nanosleep")
	})
	withoutKill(t, func() {
		require.NoError(t, tr.Condemn(id))
		if pass, err := tr.Sentence(); err != nil || pass.Failed != 1 {
			t.Errorf("%+v %v", pass, err)
		}
		if e, err := tr.Lookup(w.pid()); err != nil || e.Flags&tracer.FlagKilled != 0 {
			t.Errorf("%+v %v", e, err)
		}
	})
	back := tracer.Impatient()
	if pass, err := tr.Sentence(); err != nil || pass.Sent != 1 || !pass.More {
		t.Errorf("%+v %v", pass, err)
	}
	back()
	sentenced(t, tr, id)
	w.wait()
	settled(t, tr, id)
}

// withoutKill calls do in a thread without CAP_KILL.
func withoutKill(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &all[0]))
	less := all
	less[0].Effective &^= 1 << unix.CAP_KILL
	require.NoError(t, unix.Capset(&header, &less[0]))
	defer unix.Capset(&header, &all[0])
	do()
}
