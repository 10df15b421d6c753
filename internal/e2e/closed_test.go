//go:build linux

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A standard stream that was closed is closed in the command, too, as without lineage: Go's runtime
// opens /dev/null in its place, in run and in the shim.
func TestClosedStreams(t *testing.T) {
	i := stage.NewDaemon(t)
	const look = `for fd in 0 1 2; do test -e /proc/$$/fd/$fd && echo $fd >&9; done; :`
	for redirections, want := range map[string]string{
		"": "0 1 2", "<&-": "1 2", ">&-": "0 2", "2>&-": "0 1", "<&- >&- 2>&-": "", "</dev/null": "0 1 2",
	} {
		for _, verb := range []string{"run", "init -q"} {
			script := `exec 9>&1; exec "$LNG" ` + verb + ` -- sh -c "$LOOK" ` + redirections
			cmd := exec.Command("sh", "-c", script)
			cmd.Env = append(i.Command(nil, nil).Env, "LNG="+stage.Lineage, "LOOK="+look)
			out, err := cmd.Output()
			if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
				t.Errorf("%s %s: open %q, want %q: %v", verb, redirections, got, want, err)
			}
		}
	}
}

// Ignored and blocked signals are those of the caller in the command, too: Go's runtime replaces most
// of both. timeout(1) catches some of the ignored ones, and its command has these at the default.
func TestInheritedSignals(t *testing.T) {
	i := stage.NewDaemon(t)
	for _, signals := range []string{
		"--ignore-signal=PIPE", "--ignore-signal=QUIT", "--ignore-signal=INT,QUIT", "--ignore-signal=HUP,TERM,ALRM", "--ignore-signal=TSTP,TTIN,TTOU",
		"--ignore-signal=USR1,USR2,XFSZ,CHLD,SEGV,RTMIN,RTMAX", "--block-signal=TERM,INT,USR1,RTMIN,RTMAX",
		"--ignore-signal=TERM,PIPE --block-signal=QUIT,PIPE", "--default-signal",
	} {
		for verb, without := range map[string]string{"run --": "", "init -q --": "", "timeout 60": "timeout 60", "timeout -s USR1 60": "timeout -s USR1 60"} {
			look := func(verb string) string {
				cmd := exec.Command("sh", "-c", "exec env --default-signal "+signals+" "+verb+" grep -E '^Sig(Blk|Ign)' /proc/self/status")
				cmd.Env = i.Command(nil, nil).Env
				out, err := cmd.Output()
				require.NoError(t, err)
				return string(out)
			}
			if got, want := look(stage.Lineage+" "+verb), look(without); got != want {
				t.Errorf("%s %s:\n%swant\n%s", signals, verb, got, want)
			}
		}
	}
}
