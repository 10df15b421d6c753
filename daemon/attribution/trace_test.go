//go:build linux

package attribution

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Only where the policy accepts traces is the child of an agent noted, and its environment read when
// it executes a program.
func TestAcceptedOnly(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		p := policy.Default()
		if accepted {
			p.Trace = "accept"
		}
		m := NewMarks(registry.Ground{}, func() *policy.Policy { return p })
		child := tracer.Event{Process: tracer.Identity{PID: 2}}
		m.born(new(registry.Session), nil, &child) // by the session's root
		m.execed(registry.View{}, nil, &child)
		if got := len(m.asked) == 1; got != accepted {
			t.Errorf("accepted %v: %d to be read", accepted, len(m.asked))
		}
	}
}

// What the kernel read of an environment is taken as it is; if that is no traceparent, it is read again.
func TestReadByKernel(t *testing.T) {
	p := policy.Default()
	p.Trace = "accept"
	m := NewMarks(registry.Ground{}, func() *policy.Policy { return p })
	for text, known := range map[string]bool{traceparent: true, "": false, traceparent[1:]: false} {
		child := tracer.Event{Process: tracer.Identity{PID: 2}, Traceparent: []byte(text)}
		m.born(new(registry.Session), nil, &child)
		m.execed(registry.View{}, nil, &child)
		asked := <-m.asked
		if (asked.trace != nil) != known || known && (asked.trace.From != child.Process || !asked.trace.Sampled) {
			t.Errorf("%q: %+v", text, asked.trace)
		}
	}
}

// What waits for an exec, or for readers that members delay, is bounded, and holds up nothing. A child that exits
// no longer waits, and a session that is over leaves nothing behind.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy.Default()
		p.Trace = "accept"
		m, s := NewMarks(registry.Ground{}, func() *policy.Policy { return p }), new(registry.Session)
		child := tracer.Event{}
		for n := range uint32(3 * maxBorn) {
			child.Process.PID = n + 2
			if m.born(s, nil, &child); n%2 == 0 {
				m.execed(registry.View{}, nil, &child)
			}
		}
		waiting := len(m.unread)
		m.exited(registry.View{}, s, &child)
		if waiting > maxBorn || len(m.unread) != waiting-1 || len(m.asked) != maxWait {
			t.Errorf("%d wait for an exec, %d after an exit, %d for a reader", waiting, len(m.unread), len(m.asked))
		}
		for _, over := range []func(registry.View, *registry.Session){m.Hooks().Closed, m.Hooks().Forgotten} {
			m.book(s.ID())
			if over(registry.View{}, s); len(m.books) != 0 {
				t.Error("a session that is over has a book")
			}
		}
	})
}

// TestDuring: what an agent starts is of the calls that it had open at that time, however late the event comes.
func TestDuring(t *testing.T) {
	agent := tracer.Identity{PID: 2}
	over, open := &lineage.Call{ID: "over", Agent: agent, Began: 10}, &lineage.Call{ID: "open", Agent: agent, Began: 15}
	b := &book{open: []*lineage.Call{over, open}}
	b.end(20, func(c *lineage.Call) bool { return c == over })
	b.end(20+uint64(lateBirth), func(*lineage.Call) bool { return false }) // nothing is forgotten yet
	for at, want := range map[uint64]string{9: "", 10: "over", 14: "over", 15: "over open", 19: "over open", 20: "open", 1000: "open"} {
		got := ""
		for _, c := range b.during(agent, at) {
			got += " " + c.ID
		}
		if strings.TrimSpace(got) != want || b.during(tracer.Identity{PID: 3}, at) != nil {
			t.Errorf("at %d:%s, want %s", at, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{
		"", "00", traceparent[:54], traceparent + "0", strings.ToUpper(traceparent), "ff" + traceparent[2:], traceparent[:54] + "g", "0g" + traceparent[2:],
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00_" + traceparent[3:], traceparent + "-more", " " + traceparent, traceparent + "\n", "01" + traceparent[2:] + ".", strings.Repeat("0", 1<<16),
	} {
		if got, ok := parseTrace([]byte(text)); ok || got != (lineage.Trace{}) {
			t.Errorf("%.80q is taken: %+v", text, got)
		}
	}
	for text, sampled := range map[string]bool{
		traceparent: true, traceparent[:53] + "00": false, traceparent[:53] + "03": true, "01" + traceparent[2:]: true, "cc" + traceparent[2:] + "-later": true,
	} {
		got, ok := parseTrace([]byte(text))
		if !ok || got.Sampled != sampled || fmt.Sprintf("%x-%x", got.ID, got.Span) != traceparent[3:52] {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(traceparent))
	f.Add([]byte("01" + traceparent[2:] + "-x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parseTrace(text)
		if ok != (got != lineage.Trace{}) || ok && fmt.Sprintf("%x-%x", got.ID, got.Span) != string(text[3:52]) {
			t.Errorf("%q: %+v %v", text, got, ok)
		}
	})
}

// holder is a kernel in which one process has every PID.
type holder struct {
	registry.Kernel
	now tracer.Identity
}

func (h holder) Identify(uint32) (tracer.Identity, error) { return h.now, nil }

// The first value counts, as for getenv(3), and the PID must still belong to the process.
// Nothing of the environment stays in memory.
func TestEnvironment(t *testing.T) {
	id := tracer.Identity{PID: 7, Start: 1}
	proc := procfs.FS(t.TempDir())
	buffer := make([]byte, 4096)
	for _, tt := range []struct {
		what    string
		environ []string
		now     tracer.Identity
		ok      bool
	}{
		{"alone", []string{"TRACEPARENT=" + traceparent}, id, true},
		{"among others", []string{"A=b", "", "XTRACEPARENT=x", "TRACEPARENT=" + traceparent, "SECRET=hunter2"}, id, true},
		{"the first is invalid", []string{"TRACEPARENT=x", "TRACEPARENT=" + traceparent}, id, false},
		{"another name", []string{"traceparent=" + traceparent, "TRACEPARENTS=" + traceparent}, id, false},
		{"no value", []string{"TRACEPARENT"}, id, false},
		{"none", nil, id, false},
		{"behind what is read", []string{strings.Repeat("x", 4096), "TRACEPARENT=" + traceparent}, id, false},
		{"cut off", []string{strings.Repeat("x", 4040), "TRACEPARENT=" + traceparent}, id, false},
		{"another process has the PID", []string{"TRACEPARENT=" + traceparent}, tracer.Identity{PID: 7, Start: 2}, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			procfstest.Files(t, proc.Path(7, ""), map[string]string{"environ": strings.Join(tt.environ, "\x00") + "\x00"})
			m := Marks{Ground: registry.Ground{Proc: proc, Kernel: holder{now: tt.now}}}
			got := m.traceOf(id, buffer)
			if (got != nil) != tt.ok || tt.ok && (got.From != id || fmt.Sprintf("%x", got.ID) != traceparent[3:35]) {
				t.Errorf("%+v", got)
			}
			if strings.Trim(string(buffer), "\x00") != "" {
				t.Error("the buffer still has the environment")
			}
		})
	}
}
