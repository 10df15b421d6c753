//go:build linux

package stage

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// An engine runs containers, with all its files in the test's directory. Client is the command line of its client.
type engine struct {
	i      *Instance
	Client []string
}

// serve starts the engine and waits until its client gets an answer. After the test stop ends the containers, then the
// engine ends, and what they leave is unmounted.
func (e *engine) serve(answers string, stop func(), command ...string) {
	e.i.T.Helper()
	command = NewCgroup(e.i.T).Wrap(command...)
	p := Start(e.i.T, exec.Command(command[0], command[1:]...))
	e.i.T.Cleanup(func() {
		stop()
		_ = p.Process.Signal(os.Interrupt) // it may have exited already
		p.Wait()
		text, _ := os.ReadFile("/proc/mounts")
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], e.i.Dir+"/") {
				_ = unix.Unmount(f[1], unix.MNT_DETACH)
			}
		}
	})
	e.i.Until("container engine that answers", func() bool {
		if p.Exited() {
			e.i.T.Fatal(p)
		}
		return e.Command(answers).Run() == nil
	})
}

// Command is the client with args.
func (e *engine) Command(args ...string) *exec.Cmd {
	return exec.Command(e.Client[0], append(e.Client[1:len(e.Client):len(e.Client)], args...)...)
}

// Must runs a command, which must succeed, and returns what it printed.
func (e *engine) Must(cmd *exec.Cmd) string {
	e.i.T.Helper()
	p := Start(e.i.T, cmd).Wait()
	if p.Code() != 0 {
		e.i.T.Fatal(p)
	}
	return strings.TrimSpace(p.Out.String())
}

// archive is a tar of files that everyone may run.
func archive(t *testing.T, files map[string][]byte) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, _ = w.Write(content) // into memory
	}
	require.NoError(t, w.Close())
	return &b
}
