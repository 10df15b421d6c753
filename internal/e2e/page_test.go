//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestPage: a page has every process of the session, if run writes it at the end and later;
// LNGTEST_PAGE is how many forks there are.
func TestPage(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	forks := stage.FromEnv(t, "LNGTEST_PAGE", 5000)
	file, past := filepath.Join(i.Dir, "run.html"), filepath.Join(i.Dir, "history.html")
	run := i.Start([]string{"run", "--name", "page", "--report", file, "--",
		stage.Program("vforkstorm"), "4000", "60", "2", fmt.Sprint(forks)}, append(m.Env(), "LNGTEST_SECONDS=180"))
	m.Ready()
	m.Wait("end of the forks", stormOver(m, time.Duration(forks/4000+1)*time.Second))
	i.Finish(m, run, "--now", "page")
	i.Must("history", "page", "--html", past)
	var kept api.Past
	require.NoError(t, json.Unmarshal(i.Must("history", "page", "-o", "json").Out.Bytes(), &kept))
	for _, name := range []string{file, past} {
		page := string(require.ReadFile(t, name))
		require.Contains(t, page, "ended, clean", "no member is left", "</html>", fmt.Sprintf("All %d processes, below the process", kept.Report.Started))
		if strings.Contains(page, "does not have all events") {
			t.Errorf("%s has gaps", name)
		}
	}
	if run.Code() != 137 || kept.Report.Started < forks {
		t.Errorf("%v, %d processes", run, kept.Report.Started)
	}
}
