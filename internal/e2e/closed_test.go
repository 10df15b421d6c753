//go:build linux

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
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
