package otlp

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	colmetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// metricsTime is the time between two readings, as in OpenTelemetry's readers.
const metricsTime = time.Minute

// Metrics sends the daemon's metrics, under their own names. The conversion is written
// here because OpenTelemetry's bridge from Prometheus brings the whole SDK.
type Metrics struct {
	Client Client
	Host   *record.Host
	Read   func(context.Context) ([]byte, error) // Prometheus text
	Log    zerolog.Logger
}

// Run sends until ctx is done. A reading that could not be sent is dropped: the next one
// has newer values.
func (m *Metrics) Run(ctx context.Context) {
	every := time.NewTicker(metricsTime)
	defer every.Stop()
	failed := false
	for {
		err := m.send(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			m.Log.Warn().Err(err).Msg("metrics not sent; trying again")
		case err == nil && failed:
			m.Log.Info().Msg("metrics are sent again")
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (m *Metrics) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, metricsTime/2)
	defer cancel()
	text, err := m.Read(ctx)
	if err != nil {
		return err
	}
	all, err := convert(text, time.Now())
	if err != nil {
		return err
	}
	reply := new(colmetrics.ExportMetricsServiceResponse)
	err = m.Client.post(ctx, "metrics", &colmetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource: resourceOf(m.Host), ScopeMetrics: []*metrics.ScopeMetrics{{Scope: scopeOf(m.Host), Metrics: all}},
	}}}, reply)
	if n := reply.GetPartialSuccess().GetRejectedDataPoints(); n > 0 {
		return fmt.Errorf("the receiver rejected %d of the metrics: %s", n, brief(reply.GetPartialSuccess().GetErrorMessage()))
	}
	return err
}

// convert makes OpenTelemetry's metrics of Prometheus's text.
func convert(text []byte, now time.Time) (all []*metrics.Metric, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	var start uint64 // counters started with the daemon
	if f := families["process_start_time_seconds"]; f != nil && len(f.Metric) == 1 {
		start = uint64(f.Metric[0].GetGauge().GetValue() * 1e9)
	}
	for _, f := range families {
		m := &metrics.Metric{Name: f.GetName(), Description: f.GetHelp()}
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			sum := &metrics.Sum{IsMonotonic: true, AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
			for _, x := range f.Metric {
				sum.DataPoints = append(sum.DataPoints, number(x, x.GetCounter().GetValue(), start, now))
			}
			m.Data = &metrics.Metric_Sum{Sum: sum}
		case dto.MetricType_GAUGE:
			gauge := new(metrics.Gauge)
			for _, x := range f.Metric {
				gauge.DataPoints = append(gauge.DataPoints, number(x, x.GetGauge().GetValue(), 0, now))
			}
			m.Data = &metrics.Metric_Gauge{Gauge: gauge}
		case dto.MetricType_HISTOGRAM:
			h := &metrics.Histogram{AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
			for _, x := range f.Metric {
				h.DataPoints = append(h.DataPoints, histogram(x, start, now))
			}
			m.Data = &metrics.Metric_Histogram{Histogram: h}
		default:
			continue // the daemon has no others
		}
		all = append(all, m)
	}
	return all, nil
}

func labels(x *dto.Metric) (a attributes) {
	for _, l := range x.Label {
		a = a.text(l.GetName(), l.GetValue())
	}
	return a
}

func number(x *dto.Metric, value float64, start uint64, now time.Time) *metrics.NumberDataPoint {
	return &metrics.NumberDataPoint{Attributes: labels(x), StartTimeUnixNano: start, TimeUnixNano: nanos(now), Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value}}
}

// histogram has separate buckets; Prometheus's are cumulative.
func histogram(x *dto.Metric, start uint64, now time.Time) *metrics.HistogramDataPoint {
	h := x.GetHistogram()
	p := &metrics.HistogramDataPoint{Attributes: labels(x), StartTimeUnixNano: start, TimeUnixNano: nanos(now), Count: h.GetSampleCount(), Sum: new(h.GetSampleSum())}
	var below uint64
	for _, b := range h.Bucket {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue // the bucket above the last bound
		}
		p.ExplicitBounds = append(p.ExplicitBounds, b.GetUpperBound())
		p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	p.BucketCounts = append(p.BucketCounts, h.GetSampleCount()-below)
	return p
}
