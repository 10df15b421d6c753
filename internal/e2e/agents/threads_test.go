//go:build linux

package agents

import (
	"fmt"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// A row is a public thread about processes that an agent left behind.
type row struct {
	number int
	thread string
	agent  *agent
	does   string
	steps  func(x *trial) // up to the moment at which everything should have ended
	names  []string       // what is left without lineage, and what the receipts have to name
}

// TestThreads runs each row twice. Without lineage its processes must be left, otherwise the
// row shows nothing. With lineage none is left, the receipts name them, and a lookalike
// stays alive.
func TestThreads(t *testing.T) {
	for i := range rows {
		r := &rows[i]
		t.Run(fmt.Sprintf("%02d %s", r.number, r.agent.name), func(t *testing.T) {
			r.agent.path(t) // skips
			res := result{row: r}
			t.Run("without", func(t *testing.T) {
				x := newTrial(t, r.agent, false)
				r.steps(x)
				res.red = x.left(r.names)
				x.group.Kill()
				x.bystander.MustBeUntouched()
			})
			t.Run("with", func(t *testing.T) {
				x := newTrial(t, r.agent, true)
				x.Daemon()
				r.steps(x)
				res.named, res.end = x.over(r.names)
				x.bystander.MustBeUntouched()
			})
			res.green = !t.Failed()
			results = append(results, res)
		})
	}
}

// left demands that processes of each name are left, and counts them.
func (x *trial) left(names []string) (n int) {
	x.T.Helper()
	for _, name := range names {
		found := x.running(name)
		if len(found) == 0 {
			x.T.Errorf("no %q is left without lineage; the row shows nothing; alive: %v", name, x.alive())
		}
		n += len(found)
	}
	return n
}

// over demands that no process of the trial is alive, and that the receipts are clean and name them.
// It returns how many processes with these names they have, and how long the longest end took.
func (x *trial) over(names []string) (found int, longest time.Duration) {
	x.T.Helper()
	for _, p := range x.started {
		p.Wait()
	}
	if len(x.started) > 0 { // run has returned: now, not soon
		if left := x.alive(); len(left) > 0 {
			x.T.Errorf("alive when run had returned: %v", left)
		}
	}
	x.Until("end of all", func() bool { return len(x.alive()) == 0 })
	var receipts []api.Report
	for _, s := range stage.Query[api.Sessions](x.Instance, "ls", "--all").Items {
		receipts = append(receipts, *x.Receipt(s.ID))
	}
	for _, r := range receipts {
		if r.Verdict != api.VerdictClean || !r.ConfirmedEmpty {
			x.T.Errorf("receipt of %s: %s (%s)", r.Name, r.Verdict, r.VerdictWhy)
		}
		longest = max(longest, time.Duration(r.DurationMS*float64(time.Millisecond)))
	}
	for _, name := range names {
		n := 0
		for _, r := range receipts {
			n += named(r, name)
		}
		if n == 0 {
			x.T.Errorf("no receipt names %q: %+v", name, receipts)
		}
		found += n
	}
	return found, longest
}

// stay waits until n processes have this text in their command lines.
func (x *trial) stay(text string, n int) []int {
	x.T.Helper()
	x.Until(fmt.Sprintf("%d × %q", n, text), func() bool { return len(x.running(text)) >= n })
	return x.running(text)
}

func (x *trial) why(pid int) *api.Session {
	x.T.Helper()
	return stage.Query[api.Why](x.Instance, "why", fmt.Sprint(pid)).Session
}
