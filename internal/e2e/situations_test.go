//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Situations that users reported.

// An agent crashes after starting a development server, such as "npm run dev" starts, that
// ignores SIGTERM: when run returns, within a second after the grace, the port can be
// bound again.
func TestCrashFreesThePort(t *testing.T) {
	grace := require.Slowed(time.Second)
	for _, server := range []string{"node", "port"} {
		t.Run(server, func(t *testing.T) {
			i := stage.NewDaemon(t)
			m := stage.NewMarker(t, i.Dir)
			start := stage.Program("port") + " 10000"
			if server == "node" {
				start = devServer(t, i.Dir)
			}
			file := filepath.Join(i.Dir, "report.json")
			// What an agent's shell tool does with a command that should stay.
			script := "(" + start + " >server.log 2>&1 &); exec 9>" + m.Path + "; echo root $$ >&9; sleep 60"
			run := i.Start([]string{"run", "--grace", grace.String(), "--report", file, "--", "sh", "-c", script}, m.Env())
			port := stage.Number(t, m.Line("port", 1)[0])
			client, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			require.NoError(t, err)
			defer client.Close()
			i.Agrees("the port's holder", func() error {
				p := i.Must("why", fmt.Sprintf(":%d", port))
				if !strings.Contains(p.Out.String(), "session ") {
					return fmt.Errorf("%v", p)
				}
				return nil
			})

			require.NoError(t, unix.Kill(stage.Number(t, m.Line("root", 1)[0]), unix.SIGKILL))
			crashed := time.Now()
			run.Wait()
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			took := time.Since(crashed)
			if err != nil {
				t.Errorf("run has returned, and %v", err)
			} else {
				l.Close()
			}
			m.MustBeGone()
			if run.Code() != 128+int(unix.SIGKILL) {
				t.Errorf("%v", run)
			}
			r := stage.Report(t, file)
			// Without the time for which run and this test waited for a CPU.
			if limit := grace + require.Slowed(time.Second); r.Ended == nil || r.Ended.Sub(crashed) > limit {
				t.Errorf("the session ended at %v, want %v after %v at most", r.Ended, limit, crashed)
			}
			of := func(p api.Port) bool { return p.Port == port }
			if r.Verdict != "clean" || !slices.ContainsFunc(r.PortsFreed, of) {
				t.Errorf("verdict %q, freed %+v", r.Verdict, r.PortsFreed)
			}
			t.Logf("figure: port free %v after the crash, grace %v", took.Round(time.Millisecond), grace)
		})
	}
}

// devServer makes a server and what runs it in dir, as npm does: a node that waits for a shell.
func devServer(t *testing.T, dir string) string {
	t.Helper()
	stage.Need(t, "deps", "node")
	for name, text := range map[string]string{
		"run.js": `require("node:child_process").spawnSync("sh", ["-c", "node lngtest-dev.js; exit"], {cwd: __dirname, stdio: "inherit"})`,
		"lngtest-dev.js": `const fs = require("node:fs"), net = require("node:net");
const marker = fs.openSync(process.env.LNGTEST_MARKER, "w");
const server = net.createServer(() => {}).listen(0, "127.0.0.1", () => fs.writeSync(marker, "port " + server.address().port + "\n"));
process.on("SIGTERM", () => {});
setTimeout(() => process.exit(1), 60000);
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return "node " + filepath.Join(dir, "run.js")
}

// A lock that the caller has taken and its command inherits is the caller's: no
// receipt calls it still held.
func TestInheritedLock(t *testing.T) {
	i := stage.NewDaemon(t)
	lock, err := os.Create(filepath.Join(i.Dir, "caller.lock"))
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	m, file := stage.NewMarker(t, i.Dir), filepath.Join(i.Dir, "report.json")
	// Its own lock shows that locks were read before the end.
	script := "exec 9>" + m.Path + `; exec 8>own.lock; flock 8; mkfifo in
(setsid sh -c 'trap "sleep 1; exit" TERM; echo there >in; while :; do sleep 1 & wait; done' &)
read there <in; readlink /proc/self/fd/3`
	cmd := i.Command([]string{"run", "--grace", "5s", "--report", file, "--", "sh", "-c", script}, nil)
	cmd.ExtraFiles = []*os.File{lock}
	run := stage.Start(t, cmd).Wait()
	m.MustBeGone()
	require.Equal(t, strings.TrimSpace(run.Out.String()), lock.Name())
	r := stage.Report(t, file)
	if len(r.LocksReleased) != 1 || filepath.Base(r.LocksReleased[0].Path) != "own.lock" ||
		len(r.LocksHeld) != 0 {
		t.Errorf("released %+v, held %+v; %s", r.LocksReleased, r.LocksHeld, run.Err.String())
	}
}
