//go:build linux

package export

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// receiver is an OTLP/HTTP server that can be down, slow or refuse.
type receiver struct {
	t      *testing.T
	addr   string
	server *http.Server
	status atomic.Int32 // what it answers; 0: accept
	delay  atomic.Int64 // before an answer, ns

	mu       sync.Mutex
	spans    map[string]*trace.Span // by trace and span
	repeated int                    // spans that arrived again
	changed  []string               // spans that arrived again and differed
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, spans: make(map[string]*trace.Span)}
	r.up("127.0.0.1:0")
	t.Cleanup(r.down)
	return r
}

func (r *receiver) up(addr string) {
	l, err := net.Listen("tcp", addr)
	require.NoError(r.t, err)
	r.addr = l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.serve)
	r.server = &http.Server{Handler: mux}
	go r.server.Serve(l)
}

func (r *receiver) down() { r.server.Close() }

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	time.Sleep(time.Duration(r.delay.Load()))
	if status := r.status.Load(); status != 0 {
		http.Error(w, "not now", int(status))
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	msg := new(coltrace.ExportTraceServiceRequest)
	if err := proto.Unmarshal(body, msg); err != nil || req.Header.Get("Content-Type") != "application/x-protobuf" {
		r.t.Errorf("a request that is not OTLP: %v", err)
	}
	r.takeSpans(msg)
	answer, _ := proto.Marshal(new(coltrace.ExportTraceServiceResponse))
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(answer)
}

func (r *receiver) takeSpans(msg *coltrace.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range msg.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				key := hex.EncodeToString(s.TraceId) + hex.EncodeToString(s.SpanId)
				if old := r.spans[key]; old != nil {
					if r.repeated++; describe(old) != describe(s) {
						r.changed = append(r.changed, describe(old)+" came again as "+describe(s))
					}
				}
				r.spans[key] = s
			}
		}
	}
}

func (r *receiver) all() []*trace.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*trace.Span
	for _, s := range r.spans {
		all = append(all, s)
	}
	return all
}

// orphans are spans whose parent in the same trace did not arrive.
func (r *receiver) orphans() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if !moment(s.Name) && len(s.ParentSpanId) > 0 && r.spans[hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.ParentSpanId)] == nil {
			all = append(all, describe(s))
		}
	}
	return all
}

func attribute(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			return v.StringValue
		case *common.AnyValue_IntValue:
			return strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_BoolValue:
			return strconv.FormatBool(v.BoolValue)
		}
	}
	return ""
}

// describe is what must be equal whenever a span arrives.
func describe(s *trace.Span) string {
	text := s.Name
	for _, key := range []string{"process.pid", "lineage.process.start_ns", "process.exit.code", "error.type", "lineage.process.replaced"} {
		text += " " + attribute(s.Attributes, key)
	}
	return text + " " + s.Status.GetCode().String()
}
