//go:build linux

package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"github.com/rs/zerolog"
)

// gated is a kernel whose events are read once the gate is open.
type gated struct {
	daemon.Kernel
	gate <-chan struct{}
}

func (k gated) Read(ev *tracer.Event) error {
	<-k.gate
	return k.Kernel.Read(ev)
}

// serveReal serves this kernel to its own client until the test ends. Events
// are read when gate is closed.
func serveReal(t *testing.T, ring int, gate <-chan struct{}) (c api.Client, dir string) {
	t.Helper()
	dir = tracertest.Dir(t)
	socket := filepath.Join(t.TempDir(), "s")
	h := daemon.ThisHost()
	h.Open = func(o tracer.Options) (daemon.Kernel, error) {
		k, err := tracer.Open(tracer.Options{Dir: dir, Level: o.Level, RingSize: ring})
		return gated{k, gate}, err
	}
	h.Unload = func(string) error { return tracer.Unload(dir) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, daemon.Options{Socket: socket, Version: "lngtest"}, nil, zerolog.Nop()) }()
	err := instance.Poll(ctx, func() (bool, error) {
		var err error
		if c, err = api.Dial(ctx, socket); err == nil {
			return true, nil
		}
		select {
		case err := <-done:
			done <- err
			return true, fmt.Errorf("the daemon ended: %w", err)
		default:
			return false, nil
		}
	})
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

// blocked starts a shell that waits for a line, with a session over it. Its
// lines are read from out; it ends with in.
func blocked(t *testing.T, c api.Client, script string) (s *api.Session, in io.WriteCloser, out *bufio.Reader, cmd *exec.Cmd) {
	t.Helper()
	return blockedAs(t, c, "lngtest", script)
}

func blockedAs(t *testing.T, c api.Client, name, script string) (s *api.Session, in io.WriteCloser, out *bufio.Reader, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("sh", "-c", "read go\n"+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	grace := int64(0)
	s, err = c.Create(t.Context(), api.NewSession{Root: api.Ref{PID: cmd.Process.Pid}, Name: name, GraceMS: &grace})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "go\n")
	return s, in, bufio.NewReader(pipe), cmd
}

// TestReal: a shell leaves daemonised sleepers behind, and all of them are ended.
func TestReal(t *testing.T) {
	ctx := t.Context()
	gate := make(chan struct{})
	close(gate)
	c, _ := serveReal(t, 0, gate)
	s, in, out, cmd := blocked(t, c, `(setsid sleep 300 & ); (setsid sh -c "exec sleep 301" & ); echo up; read go`)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var sleeper api.Node
	for sleeper.PID == 0 {
		tree, err := c.Tree(ctx, "lngtest", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range tree.Nodes {
			if n.State == "live" && len(n.Argv) == 2 && n.Argv[1] == "300" {
				sleeper = n
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
	c, dir := serveReal(t, os.Getpagesize(), gate)
	t.Cleanup(open)
	s, in, out, cmd := blocked(t, c, `i=0
		while [ $i -lt 1500 ]; do
			/bin/true
			[ $((i % 100)) = 0 ] && (setsid sleep 300 &)
			i=$((i+1))
		done
		echo done; read go`)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	second, err := tracer.Open(tracer.Options{Dir: dir, RingSize: os.Getpagesize()}) // for the kernel's own count
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
