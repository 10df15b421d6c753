//go:build linux

package timeout

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLeaksFound: a command that exits with 0 while an escape program lives fails, the program is
// named, and it ends.
func TestLeaksFound(t *testing.T) {
	i := stage.NewDaemon(t)
	programs, found := stage.Escapes(), 0
	for _, e := range programs {
		t.Run(e.Program, func(t *testing.T) {
			i := i.In(t)
			m := stage.NewMarker(t, i.Dir)
			// The shell exits when the program is in place: at the end of its input.
			cmd := i.Command(slices.Concat([]string{"run", "--leaks", "fail", "--grace", "100ms", "--", "sh", "-c", `"$@" </dev/null & read -r line; exit 0`, "sh"}, e.Argv()), m.Env())
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			p := stage.Start(t, cmd)
			m.Wait("members", func(bool) bool { return len(m.Lines("ready")) > 0 && len(m.Lines("member")) >= e.Members })
			require.NoError(t, in.Close())
			p.Wait()
			m.MustBeGone()
			if p.Code() != 123 || !strings.Contains(p.Err.String(), "alive 200ms after sh exited; ended, clean: ") {
				t.Errorf("%v", p)
				return
			}
			found++
		})
	}
	t.Logf("figure: %d of %d programs found", found, len(programs))
}

// TestLeaksFalse: builds and tests that leave nothing do not fail, while all CPUs are busy.
// LNGTEST_LEAKS is how often each runs.
func TestLeaksFalse(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("LNGTEST_LEAKS"))
	if err != nil {
		rounds = 2
	}
	i := stage.NewDaemon(t)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(i.Dir+"/"+name, []byte(text), 0o644))
	}
	write("Makefile", "all: a b c d e f g h\n%: ; @sh -c ': | cat; sleep .02'\n")
	write("package.json", `{"name":"lngtest","version":"1.0.0","scripts":{"postinstall":"node -e 0"}}`)
	write("package-lock.json", `{"name":"lngtest","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"lngtest","version":"1.0.0","hasInstallScript":true}}}`)
	for cpu := range 2 {
		busy := exec.Command(stage.Program("burn"), strconv.Itoa(cpu)) // it ends with us, or after a time
		busy.Env = append(os.Environ(), "LNGTEST_SECONDS=900")
		require.NoError(t, busy.Start())
		t.Cleanup(func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		})
	}
	for _, line := range []string{"make -j4", "npm ci", "go test -count=1 ./lineage"} {
		t.Run(line, func(t *testing.T) {
			argv := strings.Fields(line)
			if argv[0] == "go" && err != nil {
				t.Skip("a build takes long on a busy machine; set LNGTEST_LEAKS")
			}
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skip(err)
			}
			ran, wrong := 0, 0
			for ; ran < rounds; ran++ {
				if until, ok := t.Deadline(); ok && time.Until(until) < require.Slowed(30*time.Second) {
					break // the figure says how far it came
				}
				cmd := i.Command(append([]string{"run", "--leaks", "fail", "--"}, argv...), []string{"npm_config_cache=" + i.Dir + "/npm"})
				if argv[0] == "go" {
					cmd.Dir = "../../.."
				}
				if p := stage.Start(t, cmd).Wait(); p.Code() != 0 {
					wrong++
					t.Errorf("%v", p)
				}
			}
			t.Logf("figure: %d runs of %s, %d false alarms", ran, line, wrong)
		})
	}
}
