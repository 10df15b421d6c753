//go:build linux

package tracer_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// copied returns the path of a copy of a program, in a directory of its own.
func copied(t *testing.T, from string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lngtest-runs")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := filepath.Join(dir, "trusted")
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// runs is what the kernel says of a process and the file at path.
func runs(t *testing.T, tr *tracer.Tracer, pid uint32, path string) tracer.Running {
	t.Helper()
	id := identify(t, tr, pid)
	r, err := tr.Runs(id, path)
	require.NoError(t, err)
	if now, err := tr.Runs(tracer.Identity{PID: pid}, path); err != nil || now != r {
		t.Errorf("whatever has pid %d now: %+v, %v", pid, now, err)
	}
	return r
}

// A member that makes the link of its file show another path does not run the file there.
func TestRunsIsNotTheLink(t *testing.T) {
	program, err := filepath.Abs("../bin/testdata/lngtest-pretend")
	require.NoError(t, err)
	everySide(t, func(t *testing.T, o tracer.Options) {
		o.Dir = tracertest.Dir(t)
		trusted := copied(t, program)
		for _, test := range []struct {
			how            string
			trusted, apart tracer.Running // the files at the path, and the program's own
		}{
			{"mount", tracer.Running{Inside: true}, tracer.Running{Inside: true}},
			{"map", tracer.Running{Inside: true}, tracer.Running{Inside: true, File: true}},
			{"share", tracer.Running{}, tracer.Running{File: true}},
			{"exec", tracer.Running{File: true}, tracer.Running{}},
		} {
			t.Run(test.how, func(t *testing.T) {
				tr := tracertest.New(t, o)
				w, id := startIn(t, tr, "exec "+program+" "+test.how+" "+trusted)
				w.goOn()
				pid := parse(t, strings.Fields(w.until("member"))[1])
				if link, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || link != trusted {
					t.Fatalf("it executes %s: %v", link, err)
				}
				require.Equal(t, runs(t, tr, pid, trusted), test.trusted)
				require.Equal(t, runs(t, tr, pid, program), test.apart)
				tr.Close()
				tr = tracertest.New(t, other(o))
				if r := runs(t, tr, pid, trusted); r != test.trusted {
					t.Errorf("the file at the path, after a take-over: %+v", r)
				}
				endAll(t, tr, id, w)
			})
		}
	})
}

// The file counts, however it was reached, also for outsiders, after a restart and after a take-over.
func TestRuns(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		o.Dir = tracertest.Dir(t)
		trusted := copied(t, "/bin/sh")
		dir := filepath.Dir(trusted)
		script := filepath.Join(dir, "script")
		require.NoError(t, os.WriteFile(script, []byte("#!"+trusted+"\necho $$\nread x\n"), 0o755))
		tr := tracertest.New(t, o)
		check := func(what string, pid uint32, path string, want bool) {
			t.Helper()
			if r := runs(t, tr, pid, path); r != (tracer.Running{File: want}) {
				t.Errorf("%s: %s: %+v", what, path, r)
			}
		}
		member := func(command string) (*workload, uint32) {
			w := start(t, command)
			create(t, tr, w, tracer.SessionSpec{})
			w.goOn()
			return w, parse(t, w.line())
		}
		const waits = ` -c 'echo $$; read x'`
		_, plain := member("exec " + trusted + waits)
		check("a plain exec", plain, trusted, true)
		check("a plain exec", plain, "/bin/sh", false)
		check("a plain exec", plain, filepath.Join(dir, "nothing"), false)
		_, bound := member("mkdir " + dir + "/bound; exec unshare -m sh -c 'mount --bind " + dir + " " + dir + "/bound; exec " + dir + "/bound/trusted -c \"echo \\$\\$; read x\"'")
		check("another mount of it", bound, trusted, true)
		_, interpreter := member("exec " + script)
		check("an interpreter", interpreter, trusted, true)
		check("an interpreter", interpreter, script, false)
		_, child := member("exec " + trusted + ` -c 'exec 3<&0; (read x <&3) & echo $!; wait'`)
		check("a child without an exec", child, trusted, true)

		outsider := start(t, "exec "+trusted+waits)
		outsider.goOn()
		check("an outsider", parse(t, outsider.line()), trusted, true)
		id := create(t, tr, start(t, "read x"), tracer.SessionSpec{})
		adopted := identify(t, tr, outsider.pid())
		require.NoError(t, tr.Enter(0, id, adopted, tracer.Identity{}, tracer.SourceEnv))
		check("an adopted process", outsider.pid(), trusted, true)

		tr.Close()
		tr = tracertest.New(t, o)
		check("after a restart", plain, trusted, true)
		tr.Close()
		tr = tracertest.New(t, other(o))
		check("after a take-over", plain, trusted, true)

		// An upgrade: what runs is not the file at the path any more.
		require.NoError(t, os.Rename(copied(t, "/bin/sh"), trusted))
		check("before the new one is executed", plain, trusted, false)
		_, upgraded := member("exec " + trusted + waits)
		check("the new one", upgraded, trusted, true)
		require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
		outsider.gone()
		if _, err := tr.Runs(adopted, trusted); err == nil {
			t.Error("a process that is gone runs a file")
		}
	})
}

// A path that would act on its opening does not: a FIFO gets no reader.
func TestRunsOpensNothing(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{})
	fifo := filepath.Join(t.TempDir(), "fifo")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := start(t, "echo x > "+fifo+"; echo written")
	w.goOn()
	if r := runs(t, tr, w.pid(), fifo); r.File {
		t.Errorf("%+v", r)
	}
	reader, err := os.Open(fifo)
	require.NoError(t, err)
	defer reader.Close()
	if b, err := io.ReadAll(reader); string(b) != "x\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	require.Equal(t, w.line(), "written")
}
