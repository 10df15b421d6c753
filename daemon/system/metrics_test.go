package system

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write the metrics into docs/MONITORING.md")

// full has a value for every metric.
func full() *Metrics {
	ok, took := true, NewDurations()
	for _, v := range []float64{0.5, 1, 2} {
		took.Observe(v)
	}
	return &Metrics{
		Build: [2]string{"1.2.3", "abc"}, Level: 4, Degraded: 2, Sessions: map[string]int{"active": 3}, Host: HostMetrics{40, new(uint64(1024)), new(uint64(12))},
		Rules:  map[RuleMetrics]UseMetrics{{"claude", false}: {2, 3, 4, 5 << 20, 0.5}, {NoRule, true}: {Leftovers: 1}},
		Events: map[string]uint64{"fork": 7}, Lost: map[string]uint64{"ring": 0, "reader": 5},
		Resyncs:    map[string]uint64{"lost": 1},
		Ends:       map[EndMetrics]uint64{{"root_exit", "clean"}: 9},
		EndSeconds: took,
		Refusals:   map[string]uint64{"end": 4}, SelfCheck: &ok, BreakerOpen: true, Halted: map[string]int{"halt": 1, "drain": 0},
	}
}

func scrape(read func() (*Metrics, error)) (int, string) {
	w := httptest.NewRecorder()
	MetricsHandler(read).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Code, w.Body.String()
}

func TestScrape(t *testing.T) {
	code, text := scrape(func() (*Metrics, error) { return full(), nil })
	for _, want := range []string{
		`lineage_build_info{abi="abc",version="1.2.3"} 1`, `lineage_level 4`, `lineage_degraded 2`,
		`lineage_sessions{state="active"} 3`, `lineage_processes 40`, `lineage_events_total{type="fork"} 7`,
		`lineage_leftovers{kept="false",rule="claude"} 2`, `lineage_leftovers{kept="true",rule="-"} 1`,
		`lineage_orphans{kept="false",rule="claude"} 3`, `lineage_zombies{kept="false",rule="claude"} 4`, `lineage_rss_bytes{kept="false",rule="claude"} 5.24288e+06`,
		`lineage_memory_limit_ratio{kept="false",rule="claude"} 0.5`, `lineage_memory_available_bytes 1024`, `lineage_pids_available 12`,
		`lineage_events_lost_total{where="reader"} 5`, `lineage_resyncs_total{cause="lost"} 1`,
		`lineage_ends_total{reason="root_exit",verdict="clean"} 9`, `lineage_end_duration_seconds_bucket{le="1"} 2`,
		`lineage_end_duration_seconds_count 3`, `lineage_refusals_total{verb="end"} 4`,
		`lineage_self_check_ok 1`, `lineage_breaker_open 1`, `# TYPE lineage_end_duration_seconds histogram`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if code != http.StatusOK || !strings.Contains(text, "\ngo_goroutines ") || !strings.Contains(text, "\nprocess_resident_memory_bytes ") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := scrape(func() (*Metrics, error) { return nil, errors.New("stopping") }); code != http.StatusInternalServerError || !strings.Contains(text, "stopping") {
		t.Errorf("%d %s", code, text)
	}
}

// TestUnknownIsAbsent: an unknown value is not reported as 0.
func TestUnknownIsAbsent(t *testing.T) {
	code, text := scrape(func() (*Metrics, error) { return &Metrics{EndSeconds: NewDurations()}, nil })
	if code != http.StatusOK || strings.Contains(text, "self_check_ok") || strings.Contains(text, "_available") {
		t.Errorf("%d %s", code, text)
	}
}

func TestLint(t *testing.T) {
	_, text := scrape(func() (*Metrics, error) { return full(), nil })
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, MetricsPrefix) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestNames: the scraped metrics are the declared ones, which TestDocument writes down, and none has a label for a process, session or user.
func TestNames(t *testing.T) {
	for _, m := range table {
		for _, label := range m.labels {
			if slices.Contains([]string{"pid", "session", "name", "comm", "uid", "user", "id"}, label) {
				t.Errorf("%s has the label %s", m.name, label)
			}
		}
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newCollector(func() (*Metrics, error) { return full(), nil }))
	families, err := reg.Gather()
	require.NoError(t, err)
	var scraped, declared []string
	for _, f := range families {
		scraped = append(scraped, f.GetName())
	}
	for _, m := range table {
		declared = append(declared, MetricsPrefix+m.name)
	}
	slices.Sort(declared)
	if !slices.Equal(scraped, declared) {
		t.Errorf("scraped %v\ndeclared %v", scraped, declared)
	}
}

// TestDocument: docs/MONITORING.md has the table.
func TestDocument(t *testing.T) {
	const path = "../../docs/MONITORING.md"
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, m := range table {
		labels := ""
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", MetricsPrefix, m.name, m.kind, labels, strings.TrimSuffix(m.help, "."))
	}
	require.NoError(t, page.Keep(path, "metrics", b.String(), *update))
}
