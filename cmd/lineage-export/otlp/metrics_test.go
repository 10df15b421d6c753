package otlp

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	colmetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

const prometheus = `# HELP lineage_level The guarantee level.
# TYPE lineage_level gauge
lineage_level 4
# HELP lineage_ends_total Sessions that ended.
# TYPE lineage_ends_total counter
lineage_ends_total{reason="end",verdict="clean"} 7
lineage_ends_total{reason="idle",verdict="left"} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1000
# TYPE lineage_end_duration_seconds histogram
lineage_end_duration_seconds_bucket{le="0.1"} 2
lineage_end_duration_seconds_bucket{le="1"} 5
lineage_end_duration_seconds_bucket{le="+Inf"} 6
lineage_end_duration_seconds_sum 9.5
lineage_end_duration_seconds_count 6
`

// TestMetrics: the daemon's metrics arrive with the same names, labels and values.
func TestMetrics(t *testing.T) {
	got := make(chan *colmetrics.ExportMetricsServiceRequest, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg := new(colmetrics.ExportMetricsServiceRequest)
		if err := proto.Unmarshal(body, msg); err != nil || r.URL.Path != "/v1/metrics" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got <- msg
	}))
	defer web.Close()
	m := &Metrics{Client: Client{Base: web.URL, HTTP: web.Client()}, Host: &record.Host{ID: "h"}, Log: zerolog.Nop(),
		Read: func(context.Context) ([]byte, error) { return []byte(prometheus), nil }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	msg := <-got
	cancel()
	<-done
	byName := map[string]*metrics.Metric{}
	for _, x := range msg.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		byName[x.Name] = x
	}
	if g := byName["lineage_level"].GetGauge(); g == nil || g.DataPoints[0].GetAsDouble() != 4 {
		t.Errorf("gauge: %v", byName["lineage_level"])
	}
	sum := byName["lineage_ends_total"].GetSum()
	if sum == nil || !sum.IsMonotonic || len(sum.DataPoints) != 2 || sum.DataPoints[0].StartTimeUnixNano != 1000e9 || len(sum.DataPoints[0].Attributes) != 2 {
		t.Fatalf("counter: %v", sum)
	}
	if total := sum.DataPoints[0].GetAsDouble() + sum.DataPoints[1].GetAsDouble(); total != 8 {
		t.Errorf("counter: %v", total)
	}
	h := byName["lineage_end_duration_seconds"].GetHistogram().GetDataPoints()[0]
	if h.Count != 6 || math.Abs(h.GetSum()-9.5) > 1e-9 || len(h.ExplicitBounds) != 2 || len(h.BucketCounts) != 3 ||
		h.BucketCounts[0] != 2 || h.BucketCounts[1] != 3 || h.BucketCounts[2] != 1 {
		t.Errorf("histogram: %v", h)
	}
	if _, err := convert([]byte("x{"), time.Now()); err == nil {
		t.Error("no error for what is not Prometheus text")
	}
}
