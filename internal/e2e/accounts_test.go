//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// An agent whose first call starts 100 children that use CPU time, and prints how much. The other two calls are open at once.
const callingAgent = `mark() {
	%[1]s lngtest-inside %[2]s >/dev/null <<END
POST /v1/marks {"phase":"$1","id":"$2","agent":{"pid":$$}}
END
}
mark begin one
sh -c 'for n in $(seq 100); do sh -c "i=0; while [ \$i -lt %[3]d ]; do i=\$((i+1)); done" & done
	wait; times'
mark end one
mark begin two
mark begin three
sh -c 'exit 1'
mark end two
mark end three`

// TestCallAccounts: a call's account has the CPU time that the kernel gives its parent, of children that exit at
// once. What parallel calls started is in none.
func TestCallAccounts(t *testing.T) {
	i := stage.NewDaemon(t)
	self, err := os.Executable()
	require.NoError(t, err)
	p, r := limited(i, "calls", "", "--", "sh", "-c", fmt.Sprintf(callingAgent, i.Copy(self), i.Socket, 100_000))
	var n [4]float64 // minutes and seconds of user and system time, of the shell and of its children
	used := 0.0
	for line := range strings.Lines(p.Out.String()) {
		if read, _ := fmt.Sscanf(line, "%fm%fs %fm%fs", &n[0], &n[1], &n[2], &n[3]); read == len(n) {
			used += 60*(n[0]+n[2]) + n[1] + n[3]
		}
	}
	if len(r.Calls) != 1 || r.Calls[0].ID != "one" || r.Calls[0].Used.Processes < 101 {
		t.Fatalf("%+v\n%v", r.Calls, p)
	}
	got := r.Calls[0].Used
	t.Logf("figure: %d processes used %.3f s, by times(2) %.3f s", got.Processes, got.CPUSeconds, used)
	// Within 1 %, but for the last tick of each.
	if used < 5 || got.CPUSeconds < 0.99*used-0.004*float64(got.Processes) || got.CPUSeconds > 1.01*used {
		t.Errorf("%.3f s are counted of %.3f s", got.CPUSeconds, used)
	}
}
