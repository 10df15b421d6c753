//go:build linux

package supervise

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	p.stdout.grown, p.stderr.grown = make(chan struct{}, 1), make(chan struct{}, 1)
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.WaitDelay = time.Second // after its exit, if a process holds its pipes
	require.NoError(t, cmd.Start())
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			cmd.Process.Kill()
			<-p.done
		}
	})
	return p
}

func piped(t *testing.T, cmd *exec.Cmd) (*process, io.Closer) {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	return start(t, cmd), in
}

func (p *process) signal(sig unix.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

func (p *process) wait() result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(deadline):
		p.t.Fatalf("run does not return; stdout %q, stderr %q", p.stdout.String(), p.stderr.String())
	}
	return result{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// output is everything that a process has printed so far.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	seen  int // expect continues from here
	grown chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grown <- struct{}{}:
	default:
	}
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// expect waits for text after the previous match, and returns the rest of its line,
// which must be complete.
func (o *output) expect(t *testing.T, text string) string {
	t.Helper()
	late := time.After(deadline)
	for {
		if rest, err := o.find(text); err == nil {
			return rest
		}
		select {
		case <-o.grown:
		case <-late:
			t.Fatalf("%q is not in the output:\n%s", text, o.String())
		}
	}
}

var errNotYet = errors.New("not yet")

func (o *output) find(text string) (rest string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.b.String()
	at := strings.Index(all[o.seen:], text)
	if at < 0 {
		return "", errNotYet
	}
	at += o.seen + len(text)
	rest, _, whole := strings.Cut(all[at:], "\n")
	if !whole {
		return "", errNotYet
	}
	o.seen = at
	return strings.TrimSpace(rest), nil
}
