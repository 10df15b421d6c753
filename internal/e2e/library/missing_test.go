//go:build linux

package library

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api/run"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const missingPython = `
import asyncio, subprocess, sys, os
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["LNGTEST_LIBRARY"])
import lineage_run
O = {"lineage": os.environ["LNGTEST_LINEAGE"]}
def same(what, *args, **kwargs):
    said = []
    for f, options in ((subprocess.run, {}), (lineage_run.run, O)):
        try:
            f(*args, **kwargs, **options)
            said.append("nothing")
        except Exception as e:
            said.append([type(e).__name__, getattr(e, "errno", None), getattr(e, "filename", None), getattr(e, "cmd", None)])
    if said[0] != said[1] or said[0] == "nothing":
        print(what, said)
same("missing", ["lngtest-nosuch", "x"])
same("missing path", ["./lngtest-nosuch"])
same("not executable", [os.environ["LNGTEST_PLAIN"]])
same("in PATH", ["plain"], env={"PATH": os.path.dirname(os.environ["LNGTEST_PLAIN"])})
same("a directory", ["/"])
same("late", ["sleep", "60"], timeout=0.2)
same("late shell", "sleep 60", shell=True, timeout=0.2)
same("failed", ["false"], check=True)
same("no directory", ["true"], cwd="/lngtest-nosuch")
if lineage_run.run(["./plain"], cwd=os.environ["LNGTEST_GOOD"], **O).returncode != 7:
    print("relative to cwd")
try:
    lineage_run.run(["true"], lineage="/no/such/lineage")
    print("without lineage: nothing")
except lineage_run.NotInstalledError as e:
    if "install the package lineage" not in str(e):
        print(e)
async def main():
    try:
        await lineage_run.create_subprocess_exec("lngtest-nosuch", **O)
        print("asyncio: nothing")
    except FileNotFoundError:
        pass
asyncio.run(main())
`

const missingNode = `
import child_process from 'node:child_process'
const { spawn, NotInstalledError } = await import(process.env.LNGTEST_LIBRARY + '/lineage-run.mjs')
const of = (f, command, args, options) => new Promise(resolve => {
  const child = f(command, args, options), said = {}
  child.on('error', e => Object.assign(said, { message: e.message, code: e.code, errno: e.errno, syscall: e.syscall, path: e.path, spawnargs: e.spawnargs, kill: child.kill() }))
  child.on('close', code => resolve(JSON.stringify({ ...said, code, pid: child.pid })))
})
const plain = process.env.LNGTEST_PLAIN
for (const [command, args, options] of [['lngtest-nosuch', ['x'], {}], ['./lngtest-nosuch', [], {}], [plain, [], {}], ['plain', [], { env: { PATH: plain.replace(/.plain$/, '') } }], ['/', [], {}]]) {
  const want = await of(child_process.spawn, command, args, options)
  const got = await of(spawn, command, args, { ...options, lineage: process.env.LNGTEST_LINEAGE })
  if (got !== want) console.log(command, got, want)
}
const good = await of(spawn, './plain', [], { cwd: process.env.LNGTEST_GOOD, lineage: process.env.LNGTEST_LINEAGE })
if (JSON.parse(good).code !== 7) console.log('relative to cwd', good)
try {
  spawn('true', [], { lineage: '/no/such/lineage' })
  console.log('without lineage: nothing')
} catch (err) {
  if (!(err instanceof NotInstalledError) || !err.message.includes('install the package lineage')) console.log(err)
}
`

// A command that cannot be started is the error that the original gives, and other errors name the
// caller's command.
func TestMissing(t *testing.T) {
	i := stage.NewDaemon(t)
	good := filepath.Join(i.Dir, "good")
	plain := filepath.Join(i.Dir, "plain")
	require.NoError(
		t,
		errors.Join(os.WriteFile(plain, []byte("#!/bin/sh\nexit 7\n"), 0o644), os.Mkdir(good, 0o755),
			os.WriteFile(filepath.Join(good, "plain"), []byte("#!/bin/sh\nexit 7\n"), 0o755)),
	)
	for name, command := range map[string][]string{"python": {"python3", "-c", missingPython}, "node": {"node", "--input-type=module", "-e", missingNode}} {
		t.Run(name, func(t *testing.T) {
			library, err := filepath.Abs("../../../api/run/" + name)
			require.NoError(t, err)
			tmp := t.TempDir()
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Dir = i.Dir
			cmd.Env = append(os.Environ(), "LNGTEST_LIBRARY="+library, "LNGTEST_LINEAGE="+stage.Lineage, "LNGTEST_PLAIN="+plain, "LNGTEST_GOOD="+good,
				"LINEAGE_SOCKET="+i.Socket, "TMPDIR="+tmp)
			if p := stage.Start(t, cmd).Wait(); p.Code() != 0 || p.Out.Len() > 0 {
				t.Errorf("%s differs: %v", name, p)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("%v is left: %v", left, err)
			}
		})
	}
	t.Run("go", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for command, want := range map[string]error{"lngtest-nosuch": exec.ErrNotFound, "/lngtest-nosuch": fs.ErrNotExist, plain: fs.ErrPermission} {
			cmd := run.CommandContext(ctx, command)
			cmd.Lineage, cmd.Socket = stage.Lineage, i.Socket
			if err := cmd.Run(); !errors.Is(err, want) || strings.Contains(err.Error(), "lineage did not") || cmd.Report() != nil {
				t.Errorf("%s: %v, %+v, want %v", command, err, cmd.Report(), want)
			}
		}
	})
}
