package arch

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLinked: what must not be in a binary. The daemon's binary runs as root and uses
// no network; the MCP server and the exporter are clients, without code of the daemon.
func TestLinked(t *testing.T) {
	for binary, without := range map[string][]string{
		"./cmd/lineage":        {"github.com/modelcontextprotocol/", "golang.org/x/oauth2", "github.com/golang-jwt/", "go.opentelemetry.io/", module + "/cmd/lineage-mcp", module + "/cmd/lineage-export"},
		"./cmd/lineage-mcp":    {module + "/daemon", module + "/tracer", module + "/enforcer", module + "/bpf", "github.com/cilium/ebpf"},
		"./cmd/lineage-export": {module + "/daemon", module + "/tracer", module + "/bpf", "github.com/cilium/ebpf", "google.golang.org/grpc"},
		"./api/run":            {"github.com/", "golang.org/x/"}, // except our own
	} {
		cmd := exec.Command("go", "list", "-deps", binary)
		cmd.Dir, cmd.Env = "../..", append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		require.NoError(t, err)
		for dep := range strings.FieldsSeq(string(out)) {
			for _, prefix := range without {
				ours := dep == module+"/api" || dep == module+"/api/run"
				if strings.HasPrefix(dep, prefix) && !ours {
					t.Errorf("%s links %s", binary, dep)
				}
			}
		}
	}
}
