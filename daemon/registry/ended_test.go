//go:build linux

package registry

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// dies books deaths of members that ran command lines of 4,000 empty arguments.
func dies(o *Registry, s *Session, deaths int) {
	for range deaths {
		s.receipt.Died(enforcer.Death{Comm: "lngtest", Argv: make([]string, 4000)}, func(n int) bool { return o.ended.Take(s.info.UID, n) })
	}
}

// TestReceiptsAreBounded: all receipts together have a bound in bytes, of live sessions and of
// those that have ended. A user who fills it loses own receipts, and no other user's.
func TestReceiptsAreBounded(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	o, k := newRegistry(t)
	before := heap()
	other := sessionOf(t, o, k, 100, 1001)
	dies(o, other, 5)
	over(o, other)
	var all []*Session
	for i := range 60 {
		s := sessionOf(t, o, k, uint32(200+i), 1000)
		dies(o, s, 30)
		all = append(all, s)
		if i%2 == 0 {
			over(o, s)
		}
	}
	late := sessionOf(t, o, k, 300, 1001)
	dies(o, late, 5)
	if grown := heap() - before; int64(grown) > 2*maxReceipts {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	if o.sessions[other.info.ID] == nil || len(other.report.Processes[4].Argv) != 4000 {
		t.Error("the receipt of another user is gone")
	}
	if rep := late.receipt.Report(late.info, 0, 0, nil); rep.Truncated || rep.Processes[4].Argv == nil {
		t.Errorf("the receipt of another user is not whole: %+v", rep)
	}
	for i, s := range all {
		if i%2 != 0 {
			over(o, s)
		}
	}
	over(o, late)
	if o.sessions[late.info.ID] == nil || o.sessions[other.info.ID] == nil || o.sessions[all[59].info.ID] == nil || o.sessions[all[0].info.ID] != nil {
		t.Error("not the oldest receipts of the user with the most are gone")
	}
}

// TestOwnerStoppedLate: an owner that stops while its session ends is continued when the
// session is over. It has to report the result.
func TestOwnerStoppedLate(t *testing.T) {
	o, k := newRegistry(t)
	proc := procfs.FS(t.TempDir())
	o.enforcer = enforcer.New(k, enforcer.Options{
		Clock: k.Now, Proc: proc, Hold: func(pid uint32) (enforcer.Handle, error) { return k.Hold(pid) },
	})
	owner := k.Add(90, 1, "lngtest-owner").Identity
	s := session(t, o, k, 100)
	s.info.Owner = owner
	k.Exit(100, 0)
	is := func(state string) {
		t.Helper()
		stat := fmt.Sprintf("90 (a) %s 1 90 90 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", state)
		if err := errors.Join(os.MkdirAll(proc.Path(90, ""), 0o700), os.WriteFile(proc.Path(90, "stat"), []byte(stat), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	is("S")
	o.died(s, &tracer.Event{Type: tracer.EventExit, Time: s.info.Created + 1, Process: s.info.Root, Session: s.info.ID})
	if sent := k.Sent(); len(sent) != 0 {
		t.Errorf("sent to an owner that runs: %v", sent)
	}
	is("T")
	over(o, s)
	if sent := k.Sent(); len(sent) != 1 || sent[0].To != owner || sent[0].Signal != unix.SIGCONT {
		t.Errorf("sent %v", sent)
	}
}
