package arch

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLinked: what must not be in a binary. The daemon's binary runs as root and uses
// no network; the MCP server, the exporter and the link are clients, without code of the daemon. Only the last two
// know NATS.
func TestLinked(t *testing.T) {
	for binary, without := range map[string][]string{
		"./cmd/lineage": {"github.com/modelcontextprotocol/", "golang.org/x/oauth2", "github.com/golang-jwt/", "go.opentelemetry.io/", "github.com/nats-io/",
			module + "/cmd/lineage-mcp", module + "/cmd/lineage-export", module + "/cmd/lineage-link"},
		"./cmd/lineage-mcp": {"github.com/godbus/", "github.com/nats-io/", module + "/daemon", module + "/tracer",
			module + "/enforcer", module + "/bpf", "github.com/cilium/ebpf"},
		"./cmd/lineage-export": {"github.com/godbus/", "github.com/nats-io/nats-server", module + "/daemon", module + "/tracer",
			module + "/bpf", "github.com/cilium/ebpf", "google.golang.org/grpc"},
		"./cmd/lineage-link": {"github.com/godbus/", "github.com/nats-io/nats-server", "go.opentelemetry.io/", module + "/daemon", module + "/tracer",
			module + "/bpf", "github.com/cilium/ebpf", module + "/cmd/lineage-export"},
	} {
		cmd := exec.Command("go", "list", "-deps", binary)
		cmd.Dir, cmd.Env = "../..", append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		require.NoError(t, err)
		for dep := range strings.FieldsSeq(string(out)) {
			for _, prefix := range without {
				if strings.HasPrefix(dep, prefix) {
					t.Errorf("%s links %s", binary, dep)
				}
			}
		}
	}
}

// TestModule: module api, with its tests, needs no other: a program that imports it gets none.
func TestModule(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-test", "./...")
	cmd.Dir = "../../api"
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(read(t, "api/go.mod"), "require") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBus: only the daemon's package for cgroups talks to systemd, by the fixed path of the bus.
func TestBus(t *testing.T) {
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			if (strings.HasPrefix(path, "github.com/godbus/") || strings.HasSuffix(path, "/dbus")) && p.ImportPath != "daemon/cgroup" {
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
	if text := read(t, "daemon/cgroup/systemd.go"); strings.Contains(text, "SystemBus") || strings.Contains(text, "dbus.New(") || strings.Contains(text, "Dial(") {
		t.Error("daemon/cgroup uses an address of the environment")
	}
}

// TestNATS: only the link's bus imports nats.go, and go.sum does not list the server that tests start.
func TestNATS(t *testing.T) {
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/nats-io/") && p.ImportPath != "cmd/lineage-link/bus" {
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
	if sums := read(t, "go.sum"); strings.Contains(sums, "nats-server") || strings.Contains(sums, "nats-io/jwt") {
		t.Error("go.sum has the server")
	}
}
