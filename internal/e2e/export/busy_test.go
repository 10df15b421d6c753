//go:build linux

package export

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestBusyCall: processes that a tool call left, and that use the CPUs five minutes after the end of the
// call, are a finding. What an earlier call left is idle, and no finding.
func TestBusyCall(t *testing.T) {
	const after = 5 * time.Minute
	defer func(before time.Duration) { stage.Patience = before }(stage.Patience)
	stage.Patience += after
	i := stage.NewDaemon(t)
	ocsfExporter(i)
	log := filepath.Join(i.Dir, "ocsf.jsonl")
	script := fmt.Sprintf(`
		hook() { echo "{\"hook_event_name\":\"$1\",\"tool_name\":\"Bash\",\"tool_use_id\":\"$2\"}" | %s hook claude-code; }
		export LNGTEST_SECONDS=%d
		hook PreToolUse calm; sleep $LNGTEST_SECONDS & hook PostToolUse calm
		hook PreToolUse busy; (sleep %.0f; nice -n -20 %[4]s 0 & nice -n -20 %[4]s 1 & wait) & hook PostToolUse busy
		wait`, stage.Lineage, int((2 * stage.Patience).Seconds()), after.Seconds(), stage.Program("burn"))
	stage.Urgent(func() { // a hook gives up after 200 ms
		i.Start([]string{"run", "--name", "agent", "--grace", "0s", "--", "timeout", "3600", "sh", "-c", script}, stage.NewMarker(t, i.Dir).Env())
	})
	i.Until("finding of a busy call", func() bool { return found(t, log, "busy_call", "agent") })
	i.Must("end", "--all", "--yes", "--now")
	written(t, log) // each event is valid
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	if n := bytes.Count(text, []byte(`"call":"busy"`)); n != 1 || bytes.Contains(text, []byte(`"call":"calm"`)) {
		t.Errorf("%d findings of the busy call: %s", n, text)
	}
}
