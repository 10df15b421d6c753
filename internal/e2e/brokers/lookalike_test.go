//go:build linux

package brokers

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"golang.org/x/sys/unix"
)

// Two hundred processes run the same command in the same directory with the same
// variables, except the secret: only the process with the secret ends with the session.
func TestLookalikes(t *testing.T) {
	i := policed(t, "end: all")
	a := ask(i, `echo "$LINEAGE_SESSION $LINEAGE_TOKEN"`)
	i.Until("secret", func() bool { return strings.Contains(a.run.Out.String(), "\n") })
	session, token, _ := strings.Cut(strings.TrimSpace(a.run.Out.String()), " ")
	start := func(token string) *stage.Process {
		c := exec.Command("sleep", "135")
		c.Dir, c.Env = i.Dir, append(os.Environ(), "LINEAGE_SESSION="+session, "LINEAGE_TOKEN="+token)
		return stage.Start(t, c)
	}
	var all []*stage.Process
	for range 200 {
		all = append(all, start(strings.Repeat("A", len(token))))
	}
	one := start(token)
	b := a.brokered("attributed", "env")
	is(t, b, "", "env", "strong", true)
	if b.Process.PID != one.Process.Pid {
		t.Errorf("%+v", b.Process)
	}
	i.End("work")
	one.Wait()
	for _, p := range all {
		if p.Exited() || unix.Kill(p.Process.Pid, 0) != nil {
			t.Errorf("%d died", p.Process.Pid)
		}
	}
	if r := a.receipt(); len(r.Brokered) != 1 {
		t.Errorf("%+v", r.Brokered)
	}
}
