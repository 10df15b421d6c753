//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// The environment is gone with the process, and the daemon reads an exec up to 10 ms late, so
// only some short-lived children of the agent have a trace. Children that live for 100 ms all
// have one, except one that had to wait for a CPU.
func TestTraceOfShortProcesses(t *testing.T) {
	const children = 50
	i := stage.New(t)
	i.Daemon("--policy", i.Policy("trace: accept\n"))
	for _, life := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		name := fmt.Sprintf("life%d", life.Milliseconds())
		command := "/bin/true"
		if life > 0 {
			command = fmt.Sprintf("/bin/sleep %.3f", life.Seconds())
		}
		i.Must("run", "--name", name, "--", "bash", "-c", fmt.Sprintf(
			`for n in $(seq 1000 %d); do TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920$n-01 %s; done`, 1000+children-1, command))
		caught, all := 0, 0
		scan := i.Must("events", "--since", "10m", "--type", "trace,exec", name, "-o", "jsonl").Out.String()
		for line := range strings.Lines(scan) {
			if strings.Contains(line, `"type":"trace"`) {
				caught++
			} else if strings.Contains(line, `"exe":"`+strings.Fields(command)[0]+`"`) {
				all++
			}
		}
		t.Logf("figure: of %d children that lived for %v %d have their trace", all, life, caught)
		if all != children || life >= 100*time.Millisecond && caught < all-1 {
			t.Errorf("%d of %d", caught, all)
		}
	}
}
