//go:build linux

package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"github.com/rs/zerolog"
)

// TestReal drives a daemon over this kernel with its own client: a shell
// leaves a daemonised sleeper behind, and all of it ends.
func TestReal(t *testing.T) {
	dir := tracertest.Dir(t)
	socket := filepath.Join(t.TempDir(), "s")
	h := thisHost()
	h.open = func(o tracer.Options) (kernel, error) { return tracer.Open(tracer.Options{Dir: dir, Level: o.Level}) }
	h.unload = func(string) error { return tracer.Unload(dir) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	serving := make(chan struct{})
	go func() {
		defer close(serving)
		done <- h.serve(ctx, Options{Socket: socket, Version: "lngtest"}, nil, zerolog.New(os.Stderr))
	}()
	defer func() {
		cancel()
		<-serving
	}()
	var c api.Client
	for c == nil {
		select {
		case err := <-done:
			t.Fatalf("the daemon ended: %v", err)
		default:
			c, _ = api.Dial(ctx, socket)
		}
	}
	defer c.Close()

	cmd := exec.Command("sh", "-c", `read go; (setsid sleep 300 & ); (setsid sh -c "exec sleep 301" & ); echo up; read go`)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	grace := int64(0)
	s, err := c.Create(ctx, api.NewSession{Root: api.Ref{PID: cmd.Process.Pid}, Name: "lngtest", GraceMS: &grace})
	if err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("go\n"))
	out.Read(make([]byte, 3))
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
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
