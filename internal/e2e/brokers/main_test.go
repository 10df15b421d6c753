//go:build linux

package brokers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestMain(m *testing.M) {
	stage.Begin("test-brokers", "../../..")
	if err := stage.PrivateSpools(); err != nil {
		fmt.Fprintln(os.Stderr, "brokers:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// agent is a session whose root runs a script and then waits.
type agent struct {
	*stage.Instance
	run *stage.Process
}

// policed starts a daemon that enforces its policy.
func policed(t *testing.T, brokers string) *stage.Instance {
	t.Helper()
	i := stage.New(t)
	i.Daemon("--policy", i.Policy("mode: enforce\nbrokers: {"+brokers+"}\n"))
	return i
}

func ask(i *stage.Instance, script string) *agent {
	i.T.Helper()
	a := &agent{Instance: i}
	a.run = i.Start([]string{"run", "--report", filepath.Join(i.Dir, "report.json"), "--name", "work", "--grace", "0s", "--", "sh", "-c", script + "\nexec sleep 120"}, nil)
	return a
}

// brokered waits for what the session handed over, in one state and by that evidence, "" for any.
// A process has better evidence from its exec on, and is found before.
func (a *agent) brokered(state, source string) (b api.Delegated) {
	a.T.Helper()
	a.Until("word of "+state+" work", func() bool {
		if a.run.Exited() {
			a.T.Fatal(a.run)
		}
		for _, s := range stage.Query[api.Sessions](a.Instance, "ls").Items {
			for _, x := range s.Delegated {
				if s.Name == "work" && x.State == state && (source == "" || x.Evidence != nil && x.Evidence.Source == source) {
					b = x
					return true
				}
			}
		}
		return false
	})
	return b
}

// receipt is what run wrote when it was over.
func (a *agent) receipt() api.Report {
	a.T.Helper()
	a.run.Wait()
	return stage.Report(a.T, filepath.Join(a.Dir, "report.json"))
}

// alive reports whether the process that was found still runs.
func alive(b api.Delegated) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.Process.PID))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func is(t *testing.T, b api.Delegated, broker, source, confidence string, ends bool) {
	t.Helper()
	if b.Broker != broker || b.Evidence == nil || b.Evidence.Source != source || b.Evidence.Confidence != confidence || b.Ends != ends {
		t.Errorf("want %s by %s, %s, ends %v: %+v %+v", broker, source, confidence, ends, b, b.Evidence)
	}
}
