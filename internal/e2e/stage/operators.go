//go:build linux

package stage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Key makes an SSH key without a passphrase, and path.pub.
func Key(t require.T, path string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
}

// Operators makes the instance's next daemon accept commands that are signed with keys: each operator is
// called as the file of the key. What they may do is in the policy, which is in the same folder.
func (i *Instance) Operators(keys ...string) {
	i.T.Helper()
	var lines strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&lines, "%s %s", filepath.Base(key), require.ReadFile(i.T, key+".pub"))
	}
	state := i.Socket + ".state"
	require.NoError(i.T, os.WriteFile(filepath.Join(i.Dir, "operators"), []byte(lines.String()), 0o644),
		os.MkdirAll(state, 0o700),
		os.WriteFile(filepath.Join(state, "commands.json"), []byte(`{"floor":"2026-01-01T00:00:00Z"}`), 0o600)) // as an earlier daemon left it
}
