//go:build linux

package library

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/run"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A library starts a program. Its process is a caller like one that a user would write.
type library struct {
	name string
	// start starts argv with environment env.
	start func(t *testing.T, i *stage.Instance, env, argv []string) started
}

type started interface {
	session() string
	// finish ends everything, if end, and waits as the library does.
	finish(end bool) result
}

type result struct {
	Code      int
	Guarantee string
	Verdict   api.Verdict
	Why       string // why it is not clean

	took time.Duration
}

var libraries = []library{
	{"go", startGo},
	{"python subprocess", script("python3", "python", "driver.py", "subprocess")},
	{"python asyncio", script("python3", "python", "driver.py", "asyncio")},
	{"node", script("node", "node", "driver.mjs", "spawn")},
}

type goRun struct {
	t   *testing.T
	cmd *run.Cmd
	out io.ReadCloser
}

func startGo(t *testing.T, i *stage.Instance, env, argv []string) started {
	t.Helper()
	cmd := run.Command(argv[0], argv[1:]...)
	cmd.Lineage, cmd.Socket, cmd.Grace, cmd.Name = stage.Lineage, i.Socket, time.Second/2, "library"
	cmd.Env, cmd.Dir, cmd.Stderr = env, i.Dir, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &goRun{t, cmd, out}
}

func (g *goRun) session() string {
	s, err := g.cmd.Session()
	if errors.Is(err, run.ErrNoSession) {
		return ""
	}
	require.NoError(g.t, err)
	return s.ID
}

func (g *goRun) finish(end bool) result {
	g.t.Helper()
	began := time.Now()
	if end {
		if err := g.cmd.End(); err != nil {
			g.t.Error(err)
		}
	}
	if _, err := io.Copy(io.Discard, g.out); err != nil {
		g.t.Error(err)
	}
	_ = g.cmd.Wait() // the test checks the exit code
	r := result{Code: g.cmd.ProcessState.ExitCode(), Guarantee: g.cmd.Guarantee().String(), took: time.Since(began)}
	if report := g.cmd.Report(); report != nil {
		r.Verdict, r.Why = report.Verdict, report.VerdictWhy
	}
	return r
}

type driver struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	id    string
}

// script makes a library of a script that loads api/run/FOLDER. It skips a test on a
// host without the interpreter.
func script(interpreter, folder, file, shape string) func(*testing.T, *stage.Instance, []string, []string) started {
	return func(t *testing.T, i *stage.Instance, env, argv []string) started {
		t.Helper()
		path, err := exec.LookPath(interpreter)
		if err != nil {
			t.Skipf("no %s on this host: %v", interpreter, err)
		}
		of, err := filepath.Abs(filepath.Join("../../../api/run", folder))
		require.NoError(t, err)
		d := &driver{t: t}
		cmd := exec.Command(path, slices.Concat([]string{filepath.Join("testdata", file), shape, stage.Lineage}, argv)...)
		cmd.Env = append(env, "LNGTEST_LIBRARY="+of, "LINEAGE_SOCKET="+i.Socket)
		cmd.Stderr, d.cmd = os.Stderr, cmd
		d.stdin, err = cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		d.lines = bufio.NewScanner(out)
		var first struct{ Session string }
		d.read(&first)
		d.id = first.Session
		return d
	}
}

func (d *driver) read(doc any) {
	d.t.Helper()
	if !d.lines.Scan() {
		d.t.Fatalf("the driver said nothing: %v", d.cmd.Args)
	}
	if err := json.Unmarshal(d.lines.Bytes(), doc); err != nil {
		d.t.Fatalf("the driver said %q: %v", d.lines.Bytes(), err)
	}
}

func (d *driver) session() string { return d.id }

func (d *driver) finish(end bool) (r result) {
	d.t.Helper()
	began := time.Now()
	word := "wait\n"
	if end {
		word = "end\n"
	}
	_, err := io.WriteString(d.stdin, word)
	require.NoError(d.t, err)
	d.read(&r)
	r.took = time.Since(began)
	return r
}
