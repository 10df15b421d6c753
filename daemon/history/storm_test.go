//go:build linux

package history_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
)

// stormy is the root of a storm: no process of the host that runs the tests has such a PID.
const stormy = 1 << 23

// storm has more processes of another session die than memory keeps.
func storm(w *daemontest.Daemon) {
	w.Helper()
	w.Session("root", stormy, api.NewSession{Name: "storm"})
	for n := range uint32(lineage.DefaultHistory + 1000) {
		pid := stormy + 1 + n%1000
		w.K.Fork(stormy, pid, "lngtest-storm")
		w.K.Exit(pid, 0)
		if n%1000 == 0 {
			w.K.AllRead()
		}
	}
	w.K.AllRead()
}

// TestStorm: what a daemon said of its ended sessions, it says again once memory has forgotten their
// processes, because those of another session died, and so does the daemon after it.
func TestStorm(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	w.Session("user", 100, api.NewSession{Name: "outer", GraceMS: daemontest.MS(0)})
	w.K.Exec(100, "/bin/lngtest", "lngtest\x00--outer\x00")
	w.Fork(100, 110, 1000, "lngtest-inner")
	inner := daemontest.Into[api.Session](w.Do("100", "POST", "/v1/sessions", api.NewSession{Name: "inner", Root: api.Ref{PID: 110}, GraceMS: daemontest.MS(0)}),
		http.StatusCreated)
	w.K.Fork(110, 111, "lngtest-left")
	w.K.Exit(110, 0)
	w.Receipt(inner.ID)
	// A member of a live session sees what has ended inside, and nothing else.
	w.Fork(100, 120, 1000, "lngtest-member")
	report := ended(w, 200, "job")
	child := report.Processes[0].Ref
	var asked []string
	for _, word := range []string{inner.ID, "inner", report.Session, "job"} {
		for _, path := range []string{"", "/tree", "/tree?dead=all", "/report"} {
			asked = append(asked, "user /v1/sessions/"+word+path, "root /v1/sessions/"+word+path)
		}
	}
	asked = append(asked, "120 /v1/sessions/inner", "120 /v1/sessions/inner/tree", "120 /v1/sessions?state=ended",
		"user /v1/sessions?state=ended", "root /v1/sessions?state=ended", "root /v1/history", "user /v1/history?limit=1",
		"user /v1/why?ref="+child.String(), "user /v1/processes/"+child.String())
	answers := func() map[string]string {
		all := make(map[string]string)
		for _, ask := range asked {
			who, path, _ := strings.Cut(ask, " ")
			a := w.Do(who, "GET", path, nil)
			all[ask] = fmt.Sprint(a.Status, " ", string(a.Body))
		}
		return all
	}
	w.Until(func() bool { return strings.Contains(answers()["root /v1/history"], "[redacted]") }) // it is written
	before := answers()
	same := func(when string) {
		t.Helper()
		after := answers()
		for _, ask := range asked {
			if got, want := after[ask], before[ask]; got != want || !strings.HasPrefix(want, "200 ") {
				t.Errorf("%s, %s:\n%s\nbefore:\n%s", ask, when, got, want)
			}
		}
	}
	same("before")
	w.Add(stormy, daemontest.Shell, 0, "lngtest-storm")
	storm(w)
	same("after the storm")
	require.NoError(t, w.Service.Registry.Update(func(tx registry.Tx) {
		for x := range tx.Sessions() {
			if x.Closed() {
				tx.Save(x)
			}
		}
	}))
	w.Restart() // which writes them again
	asked = slices.DeleteFunc(asked, func(ask string) bool {
		return strings.HasPrefix(ask, "120 /v1/sessions?") || strings.HasSuffix(ask, "/report") // of what is in memory, and with the secrets there
	})
	same("after a restart")
}
