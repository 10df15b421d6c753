//go:build linux

package export

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// onDemand skips tests that are too slow for every change, and returns the directory of
// programs that only they need.
func onDemand(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LNGTEST_TELEMETRY")
	if dir == "" {
		t.Skip("LNGTEST_TELEMETRY is not set; run make test-export")
	}
	return dir
}

// fetched is a program that "make test-export" builds.
func fetched(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(onDemand(t), name)
}

// freeAddr is an address that nothing listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// serves waits until something listens on an address.
func serves(t *testing.T, p *stage.Process, addr string) {
	t.Helper()
	for deadline := time.Now().Add(stage.Patience); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) || p.Exited() {
			t.Fatalf("%v: %v; it said: %.2000s", p.Args, err, p.Err.String()+p.Out.String())
		}
	}
}

// documented is the configuration of the Collector in docs/TELEMETRY.md, with other addresses.
func documented(t *testing.T, addr, to string) string {
	t.Helper()
	page := require.ReadFile(t, filepath.Join(repository, "docs/TELEMETRY.md"))
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/TELEMETRY.md has no configuration")
	}
	// Its own metrics would take a port of the host.
	return strings.NewReplacer("127.0.0.1:4318", addr, "127.0.0.1:4319", to, "service:\n", "service:\n  telemetry: {metrics: {level: none}}\n").Replace(text)
}

// TestCollector is TestDelivery through a real OpenTelemetry Collector, which is killed.
func TestCollector(t *testing.T) {
	program := fetched(t, "collector")
	i := stage.NewDaemon(t)
	r := newReceiver(t)
	addr, config := freeAddr(t), filepath.Join(i.Dir, "collector.yaml")
	require.NoError(t, os.WriteFile(config, []byte(documented(t, addr, r.addr)), 0o600))
	var collector *stage.Process
	up := func() {
		collector = stage.Start(t, exec.Command(program, "--config", "file:"+config))
		serves(t, collector, addr)
	}
	up()
	outages(t, i, r, addr, func() { collector.Process.Signal(syscall.SIGKILL); collector.Wait() }, up)
}

// TestJaeger: what Jaeger's query gives back is the session's tree.
func TestJaeger(t *testing.T) {
	program := fetched(t, "jaeger")
	i := stage.NewDaemon(t)
	otlp, query := freeAddr(t), freeAddr(t)
	jaeger := stage.Start(t, exec.Command(program, "--collector.otlp.http.host-port="+otlp, "--query.http-server.host-port="+query,
		"--collector.otlp.grpc.host-port=127.0.0.1:0", "--query.grpc-server.host-port=127.0.0.1:0", "--collector.grpc-server.host-port=127.0.0.1:0",
		"--collector.http-server.host-port=127.0.0.1:0", "--admin.http.host-port=127.0.0.1:0", "--log-level=error"))
	serves(t, jaeger, otlp)
	serves(t, jaeger, query)
	exporter(i, otlp, "traces", t.TempDir())
	m := stage.NewMarker(t, i.Dir)
	script := `"$1" & for k in 1 2 3; do (sh -c "true; false"; ls / >/dev/null) & done; wait $(jobs -p | tail -n 3); exit 3`
	i.Start([]string{"run", "--name", "tree", "--grace", "0s", "--", "sh", "-c", script, "sh", stage.Program("daemonise")}, m.Env()).Wait()
	id := i.Record("tree").ID
	i.Receipt(id)
	tree := i.Tree(id)
	i.Agrees("the trace of "+id, func() error { return sameTree(t, "http://"+query, tree) })
}

// jaegerTrace is a trace as Jaeger's query gives it.
type jaegerTrace struct {
	Data []struct {
		Spans []struct {
			SpanID, OperationName string
			References            []struct{ RefType, TraceID, SpanID string }
			Tags                  []struct {
				Key   string
				Value any
			}
			Warnings []string
		}
	}
}

// sameTree compares: each process has spans, and each of them is below a span of its creator.
func sameTree(t *testing.T, query string, tree *api.Tree) error {
	answer, err := http.Get(query + "/api/traces?service=lineage&limit=10&lookback=1h&tags=" + `%7B%22lineage.session.id%22%3A%22` + tree.Session.ID + `%22%7D`)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var doc jaegerTrace
	if err := json.NewDecoder(answer.Body).Decode(&doc); err != nil {
		return err
	}
	if len(doc.Data) != 1 {
		return fmt.Errorf("%d traces", len(doc.Data))
	}
	owner, parents, roots := map[string]string{}, map[string][]string{}, 0
	for _, s := range doc.Data[0].Spans {
		who := s.OperationName
		for _, tag := range s.Tags {
			if tag.Key == "process.pid" && who != "lineage.session" {
				who = fmt.Sprintf("%.0f", tag.Value)
			}
		}
		owner[s.SpanID] = who
		if len(s.Warnings) > 0 {
			return fmt.Errorf("%s: %s", who, s.Warnings)
		}
	}
	for _, s := range doc.Data[0].Spans {
		if len(s.References) == 0 {
			roots++
			continue
		}
		above, there := owner[s.References[0].SpanID]
		if !there {
			return fmt.Errorf("the parent of a span of %s is not there", owner[s.SpanID])
		}
		parents[owner[s.SpanID]] = append(parents[owner[s.SpanID]], above)
	}
	if roots != 1 {
		return fmt.Errorf("%d spans without a parent", roots)
	}
	processes := 0
	for _, n := range tree.Nodes {
		if n.Session != tree.Session.ID {
			continue
		}
		processes++
		want := "lineage.session"
		if n.Creator != nil && n.Ref != tree.Session.Root.Ref {
			want = fmt.Sprint(n.Creator.PID)
		}
		got := parents[fmt.Sprint(n.PID)]
		if len(got) == 0 || slices.ContainsFunc(got, func(above string) bool { return above != want }) {
			return fmt.Errorf("%d (%s) is below %q, its creator is %s", n.PID, n.Comm, got, want)
		}
	}
	if processes < 9 {
		return fmt.Errorf("the tree has %d processes", processes)
	}
	t.Logf("figure: %d processes are %d spans in Jaeger", processes, len(owner))
	return nil
}
