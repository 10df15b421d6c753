package otlp

import (
	"context"
	"errors"
	"iter"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// Sink sends records as spans and as logs.
type Sink struct {
	Client Client
	Traces bool
	Logs   follow.Encoder // nil: no logs
	Host   *follow.Host
	Log    zerolog.Logger

	spans, logs int // of the current batch, that the receiver has accepted or refused
}

// maxRequest is how many bytes of spans or logs one request has, and the last of them. Members
// decide how large a batch becomes; receivers take 4 MiB and more.
const maxRequest = 2 << 20

func (s *Sink) Name() string { return "otlp" }

// Close does nothing: nothing is open.
func (s *Sink) Close() error { return nil }

// Deliver sends the spans of a batch, and then its logs. After an error, what the receiver has
// accepted is not sent again.
func (s *Sink) Deliver(ctx context.Context, batch []*follow.Record) error {
	if s.Traces {
		if err := s.sendSpans(ctx, batch); err != nil {
			return err
		}
	}
	if s.Logs != nil {
		if err := s.sendLogs(ctx, batch); err != nil {
			return err
		}
	}
	s.spans, s.logs = 0, 0
	return nil
}

func (s *Sink) sendSpans(ctx context.Context, batch []*follow.Record) error {
	all := func(yield func(*trace.Span) bool) {
		for _, r := range batch {
			for _, span := range spansOf(r) {
				if !yield(span) {
					return
				}
			}
		}
	}
	return requests(s, &s.spans, all, func(part []*trace.Span) error {
		reply := new(coltrace.ExportTraceServiceResponse)
		err := s.Client.post(ctx, "traces", &coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
			Resource: resourceOf(s.Host), ScopeSpans: []*trace.ScopeSpans{{Scope: scopeOf(s.Host),
				Spans: part}},
		}}}, reply)
		s.rejected(reply.GetPartialSuccess().GetRejectedSpans(), reply.GetPartialSuccess().GetErrorMessage())
		return err
	})
}

func (s *Sink) sendLogs(ctx context.Context, batch []*follow.Record) error {
	all := func(yield func(*logs.LogRecord) bool) {
		for _, r := range batch {
			for l := range s.Logs(r) {
				if !yield(logOf(r, &l)) {
					return
				}
			}
		}
	}
	return requests(s, &s.logs, all, func(part []*logs.LogRecord) error {
		reply := new(collogs.ExportLogsServiceResponse)
		err := s.Client.post(ctx, "logs", &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
			Resource: resourceOf(s.Host), ScopeLogs: []*logs.ScopeLogs{{Scope: scopeOf(s.Host),
				LogRecords: part}},
		}}}, reply)
		s.rejected(reply.GetPartialSuccess().GetRejectedLogRecords(),
			reply.GetPartialSuccess().GetErrorMessage())
		return err
	})
}

// requests sends all but the first done, in requests of a bounded size, and counts in done what the
// receiver has accepted or refused.
func requests[T proto.Message](s *Sink, done *int, all iter.Seq[T], post func([]T) error) error {
	var part []T
	n, size := 0, 0
	flush := func() error {
		err := send(s, part, post)
		if err == nil {
			*done = n
		}
		part, size = nil, 0
		return err
	}
	for item := range all {
		if n++; n <= *done {
			continue
		}
		part = append(part, item)
		if size += proto.Size(item); size >= maxRequest {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// send sends all. If the receiver refuses the data, but accepts an empty request, send
// tries halves: a record that will never be accepted must not hold up the rest.
func send[T proto.Message](s *Sink, all []T, post func([]T) error) error {
	if len(all) == 0 {
		return nil
	}
	err := post(all)
	if !errors.As(err, new(refusal)) {
		return err
	}
	if empty := post(nil); empty != nil {
		return err
	}
	return halves(s, all, post, err)
}

func halves[T proto.Message](s *Sink, all []T, post func([]T) error, err error) error {
	if len(all) == 1 {
		s.Log.Error().Err(err).Msg("the receiver refuses a record; it is left out")
		return nil
	}
	for _, part := range [][]T{all[:len(all)/2], all[len(all)/2:]} {
		err := post(part)
		if errors.As(err, new(refusal)) {
			err = halves(s, part, post, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rejected logs items that a receiver rejected from a request that it accepted.
func (s *Sink) rejected(n int64, why string) {
	if n > 0 {
		s.Log.Error().Int64("count", n).Str("error",
			why[:min(len(why), maxWhy)]).Msg("the receiver rejected records")
	}
}

func scopeOf(h *follow.Host) *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: "github.com/lineage-ebpf/lineage", Version: h.Version}
}

func resourceOf(h *follow.Host) *resource.Resource {
	return &resource.Resource{Attributes: attributes{}.
		text("service.name", "lineage").text("service.version", h.Version).
		text("host.id", h.ID).text("host.name", h.Name).text("host.arch", h.Arch).
		text("os.type", "linux").text("os.version", h.Kernel)}
}
