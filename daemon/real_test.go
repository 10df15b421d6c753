//go:build linux

package daemon_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestReal: a shell leaves daemonised sleepers behind, and all of them are ended.
func TestReal(t *testing.T) {
	ctx := t.Context()
	c := new(daemontest.Real).Serve(t)
	s, in, out, cmd := daemontest.Blocked(t, c, "lngtest", `(setsid sleep 300 & ); (setsid sh -c "exec sleep 301" & ); echo up; read go`)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var sleeper api.Node
	for asleep := 0; asleep < 2; {
		asleep = 0
		tree, err := c.Tree(ctx, "lngtest", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range tree.Nodes {
			if n.State == "live" && len(n.Argv) == 2 && n.Argv[0] == "sleep" {
				asleep++
				if n.Argv[1] == "300" {
					sleeper = n
				}
			}
		}
	}
	why, err := c.Why(ctx, sleeper.Ref.String())
	if err != nil {
		t.Fatal(err)
	}
	if len(why.Edges) < 3 || why.Edges[len(why.Edges)-1].Kind != "root" || why.Session == nil || why.Session.ID != s.ID || why.Edges[0].Creator.Alive {
		t.Errorf("%+v", why)
	}
	if p, err := c.Process(ctx, sleeper.Ref.String()); err != nil || p.Task == "" || p.Exe == "" || !p.Orphan {
		t.Errorf("%+v %v", p, err)
	}
	began := time.Now()
	in.Close()
	cmd.Wait()
	r, err := c.Report(ctx, s.ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != "clean" || r.EndReason != "root_exit" || len(r.Processes) != 2 || r.Killed != 2 {
		t.Errorf("%+v", r)
	}
	for _, p := range r.Processes {
		if p.Outcome != "kill" || !p.Leftover || len(p.Argv) < 2 {
			t.Errorf("%+v", p)
		}
	}
	t.Logf("the receipt came %v after the root's exit, the end took %.2f ms", time.Since(began), r.DurationMS)
}

// TestRealSmallRing: during a storm nothing is read, and a ring of one page holds
// little of it. The tree soon matches the kernel again; so do verdict and count.
func TestRealSmallRing(t *testing.T) {
	ctx := t.Context()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	real := daemontest.Real{Ring: os.Getpagesize(), Gate: gate}
	c := real.Serve(t)
	t.Cleanup(open)
	s, in, out, cmd := daemontest.Blocked(t, c, "lngtest", `i=0
		while [ $i -lt 1500 ]; do
			/bin/true
			[ $((i % 100)) = 0 ] && (setsid sleep 300 &)
			i=$((i+1))
		done
		echo done; read go`)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	second, err := tracer.Open(tracer.Options{Dir: real.Dir, RingSize: os.Getpagesize()}) // for the kernel's own count
	if err != nil {
		t.Fatal(err)
	}
	infos, err := second.Sessions()
	if err != nil || len(infos) != 1 {
		t.Fatalf("%+v %v", infos, err)
	}
	open()
	began := time.Now()
	var got, want []int
	err = instance.Poll(ctx, func() (bool, error) {
		tree, err := c.Tree(ctx, s.ID, "")
		if err != nil {
			return false, err
		}
		got, want = nil, nil
		for _, n := range tree.Nodes {
			if n.State == "live" {
				got = append(got, n.PID)
			}
		}
		err = second.Snapshot(infos[0].ID, func(p *tracer.Process) error {
			if !p.Dead {
				want = append(want, int(p.PID))
			}
			return nil
		})
		slices.Sort(got)
		slices.Sort(want)
		return slices.Equal(got, want) && len(want) == 16, err
	})
	if err != nil {
		t.Fatalf("%v: tree %v, kernel %v", err, got, want)
	}
	st, err := c.Status(ctx)
	if err != nil || st.Lost == 0 {
		t.Fatalf("nothing was lost: %+v %v", st, err)
	}
	t.Logf("figure: %d events lost, the tree was right %v after the storm", st.Lost, time.Since(began))
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	in.Close()
	cmd.Wait()
	if r, err := c.Report(ctx, s.ID, time.Minute); err != nil || r.Verdict != "clean" || !r.Truncated || r.Started < 1500 {
		t.Errorf("%+v %v", r, err)
	}
}
