package otlp

import (
	"context"
	"sync/atomic"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// Sink sends records as spans and as logs.
type Sink struct {
	Client Client
	Traces bool
	Logs   record.Encoder // nil: no logs
	Host   *record.Host
	Log    zerolog.Logger

	refused atomic.Uint64
	sent    *record.Record // the last of a batch whose spans were accepted, and whose logs were not yet
}

// Name is otlp.
func (s *Sink) Name() string { return "otlp" }

// Refused counts records that the receiver rejected.
func (s *Sink) Refused() uint64 { return s.refused.Load() }

// Close does nothing: nothing is open.
func (s *Sink) Close() error { return nil }

// Deliver sends the spans of a batch, and then its logs.
func (s *Sink) Deliver(ctx context.Context, batch []*record.Record) error {
	if s.Traces && s.sent != batch[len(batch)-1] {
		if err := s.sendSpans(ctx, batch); err != nil {
			return err
		}
	}
	if s.Logs == nil {
		return nil
	}
	if s.Traces {
		s.sent = batch[len(batch)-1]
	}
	return s.sendLogs(ctx, batch)
}

func (s *Sink) sendSpans(ctx context.Context, batch []*record.Record) error {
	var all []*trace.Span
	for _, r := range batch {
		all = append(all, spansOf(r)...)
	}
	return send(ctx, s, all, func(part []*trace.Span) error {
		reply := new(coltrace.ExportTraceServiceResponse)
		err := s.Client.post(ctx, "traces", &coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
			Resource: resourceOf(s.Host), ScopeSpans: []*trace.ScopeSpans{{Scope: scopeOf(s.Host), Spans: part}},
		}}}, reply)
		s.rejected(reply.GetPartialSuccess().GetRejectedSpans(), reply.GetPartialSuccess().GetErrorMessage())
		return err
	})
}

func (s *Sink) sendLogs(ctx context.Context, batch []*record.Record) error {
	var all []*logs.LogRecord
	for _, r := range batch {
		lines, err := s.Logs.Encode(r)
		if err != nil {
			s.Log.Error().Str("kind", string(r.Kind)).Str("id", r.ID).Err(err).Msg("record not encoded")
			s.refused.Add(1)
			continue
		}
		for i := range lines {
			all = append(all, logOf(r, &lines[i]))
		}
	}
	return send(ctx, s, all, func(part []*logs.LogRecord) error {
		reply := new(collogs.ExportLogsServiceResponse)
		err := s.Client.post(ctx, "logs", &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
			Resource: resourceOf(s.Host), ScopeLogs: []*logs.ScopeLogs{{Scope: scopeOf(s.Host), LogRecords: part}},
		}}}, reply)
		s.rejected(reply.GetPartialSuccess().GetRejectedLogRecords(), reply.GetPartialSuccess().GetErrorMessage())
		return err
	})
}

// send sends all. If the receiver refuses the data, but accepts an empty request, send
// tries halves: a record that will never be accepted must not hold up the rest.
func send[T proto.Message](ctx context.Context, s *Sink, all []T, post func([]T) error) error {
	if len(all) == 0 {
		return nil
	}
	err := post(all)
	if !refuses(err) {
		return err
	}
	if empty := post(nil); empty != nil {
		return err
	}
	return halves(ctx, s, all, post, err)
}

func halves[T proto.Message](ctx context.Context, s *Sink, all []T, post func([]T) error, err error) error {
	if len(all) == 1 {
		s.Log.Error().Err(err).Msg("the receiver refuses a record; it is left out")
		s.refused.Add(1)
		return nil
	}
	for _, part := range [][]T{all[:len(all)/2], all[len(all)/2:]} {
		err := post(part)
		if refuses(err) {
			err = halves(ctx, s, part, post, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rejected counts items that a receiver rejected from a request that it accepted.
func (s *Sink) rejected(n int64, why string) {
	if n > 0 {
		s.refused.Add(uint64(n))
		s.Log.Error().Int64("count", n).Str("error", why).Msg("the receiver rejected records")
	}
}

func scopeOf(h *record.Host) *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: "github.com/lineage-ebpf/lineage", Version: h.Version}
}

func resourceOf(h *record.Host) *resource.Resource {
	return &resource.Resource{Attributes: attributes{}.
		text("service.name", "lineage").text("service.version", h.Version).
		text("host.id", h.ID).text("host.name", h.Name).text("host.arch", h.Arch).
		text("os.type", "linux").text("os.version", h.Kernel)}
}
