//go:build linux

package attribution_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// A plan names the tracers of members, and the outsiders that a member traces: either
// may change how the end goes.
func TestPlanTraced(t *testing.T) {
	w := newWork(t, enforced)
	status := func(pid uint32, key string, value uint32) {
		t.Helper()
		text, err := os.ReadFile(w.Host.Proc.Path(pid, "status"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i := range lines {
			if strings.HasPrefix(lines[i], key+":") {
				lines[i] = fmt.Sprintf("%s:\t%d", key, value)
			}
		}
		w.File(pid, "status", strings.Join(lines, "\n"))
	}
	for pid := uint32(101); pid < 104; pid++ {
		w.runs(pid, "/bin/lngtest-member")
	}
	w.outsider(300, daemontest.Shell, "lngtest-gdb")
	status(101, "TracerPid", 300)
	w.outsider(301, daemontest.Shell, "lngtest-away")
	status(301, "TracerPid", 102)
	w.outsider(302, daemontest.Shell, "lngtest-away")
	status(302, "TracerPid", 5102)
	w.Proc(5102, 100, 1000, "lngtest-thread")
	status(5102, "Tgid", 102)
	status(103, "TracerPid", 102) // inside
	w.outsider(303, daemontest.Shell, "lngtest-debugged")
	status(303, "TracerPid", 300)
	want := map[int]string{
		101: "traced by 300 lngtest-gdb, which may delay its exit",
		102: "it traces 301 lngtest-away, 302 lngtest-away outside the session, which may die with it",
		103: "traced by 102 lngtest-member, which may delay its exit",
	}
	for _, p := range daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/sessions/"+w.s.ID+"/plan", nil), http.StatusOK).Processes {
		if p.Reason != want[p.PID] || !p.Killable {
			t.Errorf("%d: %q, want %q", p.PID, p.Reason, want[p.PID])
		}
	}
}
