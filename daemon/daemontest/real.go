//go:build linux

package daemontest

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"github.com/rs/zerolog"
)

// Real are the options of a daemon over this kernel.
type Real struct {
	daemon.Options
	Dir   string // its pins; default one of its own
	Ring  int    // bytes of events; default what the policy says
	Gates Gates
}

// Serve serves this kernel to its own client until the test ends.
func (r *Real) Serve(t *testing.T) (c api.Client) {
	t.Helper()
	if r.Dir == "" {
		r.Dir = tracertest.Dir(t)
	}
	r.Socket, r.Version = filepath.Join(t.TempDir(), "s"), "lngtest"
	h := daemon.ThisHost()
	h.Open = func(o tracer.Options) (daemon.Kernel, error) {
		k, err := tracer.Open(tracer.Options{Dir: r.Dir, Level: o.Level,
			RingSize: cmp.Or(r.Ring, o.RingSize), Deaths: o.Deaths})
		return &fenced{k, &r.Gates}, err
	}
	h.Unload = func(string) error { return tracer.Unload(r.Dir) }
	c, _ = Serve(t, h, r.Options)
	return c
}

// Serve runs the daemon of a host until stop, or the end of the test, and connects to it.
func Serve(t *testing.T, h daemon.Host, o daemon.Options) (c api.Client, stop func() error) {
	t.Helper()
	_, end, _ := serve(t, h, o)
	stop = sync.OnceValue(end)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := api.Dial(context.Background(), o.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c, stop
}

// serve begins to serve a host, and says at last why it has stopped.
func serve(t *testing.T, h daemon.Host, o daemon.Options) (s *daemon.Service, stop func() error, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	serving, done, prepare := make(chan *daemon.Service, 1), make(chan error, 1), h.Serving
	h.Serving = func(s *daemon.Service) {
		if prepare != nil {
			prepare(s)
		}
		serving <- s
	}
	go func() {
		done <- h.Serve(ctx, o, nil, zerolog.Nop())
		close(done)
	}()
	stop = func() error { cancel(); return <-done }
	select {
	case s = <-serving:
	case err := <-done:
		cancel()
		t.Fatal("the daemon ended: ", err)
	}
	return s, stop, done
}

// Blocked starts a shell that waits for a line, with a session over it. Its
// lines are read from out; it ends with in.
func Blocked(t *testing.T, c api.Client, name,
	script string) (s *api.Session, in io.WriteCloser, out *bufio.Reader, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("sh", "-c", "read go\n"+script)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	grace := int64(0)
	s, err = c.Create(t.Context(), api.NewSession{Root: api.Ref{PID: cmd.Process.Pid}, Name: name, GraceMS: &grace})
	require.NoError(t, err)
	io.WriteString(in, "go\n")
	return s, in, bufio.NewReader(pipe), cmd
}

// Receipt waits for the verdict.
func Receipt(t *testing.T, c api.Client, session string) *api.Report {
	t.Helper()
	r, err := c.Report(t.Context(), session, time.Minute)
	require.NoError(t, err)
	return r
}
