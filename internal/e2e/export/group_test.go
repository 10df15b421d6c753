//go:build linux

package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestGroup: an exporter that is only in the group lineage, as the unit lineage-export is, gets the
// command lines of root's sessions without their secrets; an exporter outside the group gets no session.
func TestGroup(t *testing.T) {
	i := stage.New(t)
	i.GroupDaemon()
	dir := filepath.Join(i.Dir, "log")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, stage.Nobody, stage.Group))
	log, state := filepath.Join(dir, "ocsf.jsonl"), filepath.Join(dir, "state")
	x := i.StartReader(nil, "export", "--ocsf", log, "--state", state)
	follows(i, x, filepath.Join(state, "ocsf.cursor"))
	i.Start([]string{"run", "--name", "secret", "--", "env", "true", "--shown", "--password", "hunter2hunter2"}, nil).Wait()
	i.Until("launch with its command line", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), `--shown --password [redacted]"`) || x.Exited()
	})
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("%v: %s", err, x.Err.String())
	}
	for line := range strings.Lines(string(text)) {
		valid(t, []byte(line)) // has no secret
	}
	id := i.Record("secret").ID
	for who, start := range map[string]func([]string, ...string) *stage.Process{"the group": i.StartReader, "nobody": i.StartNobody} {
		said := start(nil, "history", id).Wait()
		gets := strings.Contains(said.Out.String(), "[redacted]")
		if gets != (who == "the group") || strings.Contains(said.Out.String(), "hunter2") {
			t.Errorf("%s: %s%s", who, said.Out.String(), said.Err.String())
		}
	}
}
