//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// An agent that is a script, as most are: "#!/usr/bin/env" makes a second exec, under
// the name of the interpreter, so the process has that name when it is read. The name
// under which it was started is the agent's.
func TestAgentIsAScript(t *testing.T) {
	i := stage.New(t)
	script := filepath.Join(i.Dir, "lngtest-script")
	m := stage.NewMarker(t, i.Dir)
	text := "#!/usr/bin/env sh\nexec 9>" + m.Path + "\n(setsid sleep 300 &)\necho ready >&9\nread go\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o755))
	i.Daemon("--policy", i.Policy("mode: enforce\nagents:\n  - {name: lngtest-agent, enabled: true, match: {comm: lngtest-script}, grace: 200ms}\n"))
	cmd := exec.Command(script)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	p := stage.Start(t, cmd)
	m.Ready()
	i.Agrees("session", func() error {
		s := byRule(i, "lngtest-agent")
		if len(s) != 1 || s[0].Root == nil || s[0].Root.PID != p.Process.Pid || s[0].Live != 2 {
			return fmt.Errorf("sessions %+v", s)
		}
		return nil
	})
	in.Close()
	m.Gone()
	p.Wait()
}
