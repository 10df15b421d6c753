//go:build linux

package access

import (
	"errors"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// answering is a kernel with one answer about each process.
type answering struct {
	id    tracer.Identity
	entry tracer.Entry
	err   error
}

func (k *answering) Identify(uint32) (tracer.Identity, error) { return k.id, nil }
func (k *answering) Lookup(uint32) (tracer.Entry, error)      { return k.entry, k.err }

// TestJudge: a caller is what the kernel's entry of its own process says, and nothing if that
// cannot be known any longer.
func TestJudge(t *testing.T) {
	self, other := tracer.Identity{PID: 50, Start: 1}, tracer.Identity{PID: 50, Start: 2}
	for name, x := range map[string]struct {
		was    tracer.SessionID // the session that it was seen in
		kernel answering
		member tracer.SessionID
		lost   bool
	}{
		"an operator":                {0, answering{self, tracer.Entry{}, tracer.ErrNotFound}, 0, false},
		"an owner":                   {0, answering{self, tracer.Entry{Identity: self}, nil}, 0, false},
		"a member":                   {0, answering{self, tracer.Entry{Identity: self, Session: 7}, nil}, 7, false},
		"moved":                      {7, answering{self, tracer.Entry{Identity: self, Session: 8}, nil}, 8, false},
		"a member that is dying":     {7, answering{self, tracer.Entry{}, tracer.ErrNotFound}, 7, true},
		"a stale entry":              {0, answering{self, tracer.Entry{Identity: other, Session: 7}, nil}, 0, true},
		"a stale entry, of a member": {7, answering{self, tracer.Entry{Identity: other}, nil}, 7, true},
		"gone":                       {0, answering{other, tracer.Entry{}, tracer.ErrNotFound}, 0, true},
		"the kernel does not answer": {0, answering{self, tracer.Entry{}, errors.New("lngtest")}, 0, true},
		"it does not, of a member":   {7, answering{self, tracer.Entry{}, errors.New("lngtest")}, 7, true},
	} {
		a := New(Options{Kernel: &x.kernel, Proc: procfs.FS(t.TempDir()), Clock: func() time.Duration { return 0 }})
		c := &Connection{peer: Peer{PID: 50, UID: 1000, PIDFD: -1}, caller: Caller{ID: self, Member: x.was}}
		for range 2 { // what is lost stays lost
			if got := a.judge(c); got.Member != x.member || got.Lost != x.lost || got.ID != self {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}
