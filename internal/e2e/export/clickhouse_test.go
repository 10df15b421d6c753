//go:build linux

package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// clickhouse is ClickHouse's engine behind the interface that the Collector's exporter uses.
type clickhouse struct {
	t       *testing.T
	addr    string
	queries map[string]string // by their number
}

func newClickhouse(t *testing.T) *clickhouse {
	t.Helper()
	if _, err := os.Stat(fetched(t, "chdb")); err != nil {
		t.Skip("npm could not install chdb")
	}
	c := &clickhouse{t: t, addr: stage.FreeAddr(t), queries: make(map[string]string)}
	packaging := filepath.Join(repository, "packaging/clickhouse")
	_, port, _ := strings.Cut(c.addr, ":")
	engine := stage.Start(t, exec.Command("node", filepath.Join(repository, "testdata/clickhouse.js"), fetched(t, "chdb"), filepath.Join(packaging, "schema.sql"), port))
	t.Cleanup(func() { engine.Process.Signal(syscall.SIGTERM); engine.Wait() })
	serves(t, engine, c.addr)
	for _, m := range regexp.MustCompile(`(?s)-- (\d+)\. .*?\n(.*?);\n`).FindAllStringSubmatch(string(require.ReadFile(t, filepath.Join(packaging, "queries.sql"))), -1) {
		c.queries[m[1]] = m[2]
	}
	require.Equal(t, len(c.queries), 10)
	return c
}

// row is a line of a result.
type row map[string]any

func (c *clickhouse) ask(query string, params ...string) (rows []row) {
	c.t.Helper()
	values := make(url.Values)
	for k := 0; k < len(params); k += 2 {
		values.Set("param_"+params[k], params[k+1])
	}
	r, err := http.Post("http://"+c.addr+"/?"+values.Encode(), "text/plain", strings.NewReader(query))
	require.NoError(c.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(c.t, err)
	if r.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", query, text)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var one row
		require.NoError(c.t, d.Decode(&one))
		rows = append(rows, one)
	}
	return rows
}

// TestClickHouse: what the exporter sends arrives by a real Collector in tables of packaging/clickhouse, and its queries
// answer what was asked.
func TestClickHouse(t *testing.T) {
	program := fetched(t, "collector")
	c := newClickhouse(t)
	i := stage.New(t)
	name := fmt.Sprintf("lngtest-%d", os.Getpid())
	agent := filepath.Join(i.Dir, name)
	require.NoError(t, os.Rename(i.Copy("/bin/sh"), agent))
	policy := fmt.Sprintf("agents:\n  - {name: lngtest-ch, enabled: true, match: {comm: %s, exe: %s}, on_root_exit: report, signals: session}\n", name, agent)
	daemon := i.Daemon("--policy", i.Policy(policy))

	addr, config := stage.FreeAddr(t), filepath.Join(i.Dir, "collector.yaml")
	text := string(require.ReadFile(t, filepath.Join(repository, "packaging/clickhouse/collector.yaml")))
	require.NoError(
		t,
		os.WriteFile(config, []byte(strings.NewReplacer("127.0.0.1:4318", addr, "service:\n", "service:\n  telemetry: {metrics: {level: none}}\n").Replace(text)), 0o600),
	)
	// The Collector also takes the configuration of docs/TELEMETRY.md.
	_, documented, _ := strings.Cut(string(require.ReadFile(t, filepath.Join(repository, "docs/TELEMETRY.md"))), "```yaml\n")
	documented, _, _ = strings.Cut(documented, "```")
	other := filepath.Join(i.Dir, "documented.yaml")
	require.NoError(t, os.WriteFile(other, []byte(documented), 0o600))
	if said, err := exec.Command(program, "validate", "--config", "file:"+other).CombinedOutput(); err != nil {
		t.Errorf("docs/TELEMETRY.md: %v: %s", err, said)
	}
	run := exec.Command(program, "--config", "file:"+config)
	run.Env = append(os.Environ(), "CLICKHOUSE=http://"+c.addr+"?compress=none", "CLICKHOUSE_USER=default", "CLICKHOUSE_PASSWORD=")
	collector := stage.Start(t, run)
	t.Cleanup(func() { collector.Process.Signal(syscall.SIGTERM); collector.Wait() })
	serves(t, collector, addr)
	exporter(i, addr, "traces,logs", t.TempDir())
	day := func(d time.Duration) string { return time.Now().UTC().Add(d).Format(time.DateTime) }
	since, until := day(-time.Hour), day(time.Hour)

	long := i.Start([]string{"run", "--name", "long", "--", "sleep", "600"}, nil)
	i.Start([]string{"run", "--name", "fails", "--", "sh", "-c", "exit 7"}, nil).Wait()

	m, ready := stage.NewMarker(t, i.Dir), filepath.Join(i.Dir, "ready")
	outsider := stage.Start(t, exec.Command("sleep", "600"))
	left := i.Command(nil, m.Env())
	left.Path, left.Args = agent, []string{
		agent,
		"-c",
		`"$1"; until [ -e "$3" ]; do sleep 0.1; done; kill "$2"`,
		"sh",
		stage.Program("daemonise"),
		fmt.Sprint(outsider.Process.Pid),
		ready,
	}
	root := stage.Start(t, left)
	m.Ready()
	i.Until("guard of the agent's session", func() bool {
		return i.Lineage("tree", "lngtest-ch").Code() == 0 && i.Session("lngtest-ch").Signals == api.SignalsRecorded
	})
	require.NoError(t, os.WriteFile(ready, nil, 0o600))
	root.Wait()

	_, port, _ := strings.Cut(stage.FreeAddr(t), ":")
	i.Start([]string{"run", "--name", "web", "--grace", "0s", "--", "sh", "-c", "(echo open 4 tcp " + port + " 0; sleep 600) | " + stage.Program("listen")}, nil)
	i.Until("port", func() bool { return i.Lineage("why", ":"+port).Code() == 0 })
	web := i.Session("web").ID
	i.Must("end", "web", "--yes", "--now")

	i.Policy("nonsense: 1\n")
	require.NoError(t, daemon.Process.Signal(syscall.SIGHUP))

	// answer waits for the rows of a query.
	answer := func(number string, enough func([]row) bool, params ...string) []row {
		t.Helper()
		var rows []row
		i.Until("answer "+number, func() bool {
			rows = c.ask(c.queries[number], params...)
			return enough(rows)
		})
		return rows
	}
	some := func(rows []row) bool { return len(rows) > 0 }
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("collector: %.3000s", collector.Err.String())
		}
	})
	host, err := os.Hostname()
	require.NoError(t, err)
	leftovers := answer("1", some, "agent", "lngtest-ch")
	require.Equal(t, leftovers[0]["Host"].(string), host)
	require.Contains(t, leftovers[0]["What"].(string), "left 1 process behind")

	i.Until("end of web", func() bool {
		return len(c.ask("SELECT EndId FROM lineage.events WHERE Code = 'end' AND Session = {s:String}", "s", web)) == 1
	})
	end := c.ask("SELECT EndId FROM lineage.events WHERE Code = 'end' AND Session = {s:String}", "s", web)[0]["EndId"].(string)
	killed := 0
	for _, r := range answer("2", func(rows []row) bool { return len(rows) >= 4 }, "end", end) {
		require.Equal(t, r["Session"].(string), web)
		if r["Code"] == "end" {
			require.Equal(t, r["Verdict"].(string), "clean")
		} else if r["Program"] == "lngtest-listen" {
			require.Equal(t, r["Outcome"].(string), "kill")
			killed++
		}
	}
	require.Equal(t, killed, 1)

	held := answer("3", some, "port", port, "since", since, "until", until)
	require.Equal(t, len(held), 1)
	require.Equal(t, fmt.Sprint(held[0]["Session"], " ", held[0]["Name"], " ", held[0]["Address"]), web+" web 127.0.0.1")
	if held[0]["Since"].(string) >= held[0]["Until"].(string) {
		t.Errorf("%v", held[0])
	}
	require.Equal(t, len(c.ask(c.queries["3"], "port", port, "since", day(-48*time.Hour), "until", day(-24*time.Hour))), 0)

	ran := answer("5", some, "host", host, "session", web)
	require.Contains(t, fmt.Sprint(ran), "lngtest-listen", "killed by SIGKILL")
	where := answer("6", some, "path", "%/lngtest-listen", "since", since)
	require.Equal(t, where[0]["Session"].(string), web)
	crossed := answer("8", some, "since", since)
	require.Contains(t, crossed[0]["Message"].(string), "SIGTERM", fmt.Sprint(outsider.Process.Pid))
	answer("9", func(rows []row) bool { return strings.Contains(fmt.Sprint(rows), "Sessions:") }, "since", since)
	answer("10", func(rows []row) bool { return len(rows) == 1 && rows[0]["Health"] != "" })

	// The leftover ends, and the session with it.
	i.Must("end", leftovers[0]["Session"].(string), "--yes", "--now")
	answer("1", func(rows []row) bool { return len(rows) == 0 }, "agent", "lngtest-ch")
	alive := answer("7", some)
	require.Equal(t, alive[0]["Name"].(string), "long")
	long.Process.Kill()
	long.Wait()
	require.Equal(t, len(answer("4", func([]row) bool { return true }, "since", since)), 0)
	require.Equal(t, c.ask("SELECT count() >= 3 AS ended FROM lineage.sessions WHERE Verdict = 'clean'")[0]["ended"].(float64), 1)
	rows := c.ask("SELECT count() AS n, uniqExact(SpanId) AS spans FROM lineage.otel_traces FINAL")
	t.Logf("figure: %v spans in ClickHouse, %v events", rows[0]["n"], c.ask("SELECT count() AS n FROM lineage.events")[0]["n"])
}
