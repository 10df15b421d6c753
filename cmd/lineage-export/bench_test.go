//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/model"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/ocsf"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/otlp"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

type known struct{}

func (known) Session(id string) (*api.Session, error) {
	return &api.Session{ID: id, Name: "bench", Started: new(time.Now()), Root: &api.Process{Ref: api.Ref{PID: 1, StartNS: 1}, Comm: "agent", Argv: []string{"agent", "--flag"}}}, nil
}
func (known) Tree(string) []api.Node        { return nil }
func (known) Redact(argv []string) []string { return redact.Argv(argv) }

// nowhere is a receiver that takes everything.
type nowhere struct{}

func (nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// BenchmarkEvents is what one event costs, from the line of the stream to the body of the
// request.
func BenchmarkEvents(b *testing.B) {
	for _, logs := range []bool{false, true} {
		name := "traces"
		s := &otlp.Sink{Client: otlp.Client{Base: "http://x", HTTP: &http.Client{Transport: nowhere{}}}, Traces: true, Host: host(), Log: zerolog.Nop()}
		if logs {
			name, s.Logs = "traces,logs", ocsf.New()
		}
		b.Run(name, func(b *testing.B) {
			stream := lines(b.N / 2)
			m := model.New(host(), "boot", known{})
			var batch []*record.Record
			b.ReportAllocs()
			b.ResetTimer()
			_ = api.ReadEvents(stream, func(e *api.Event) error {
				if batch = append(batch, m.Apply(e)...); len(batch) >= 1024 {
					if err := s.Deliver(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					batch = batch[:0]
				}
				return nil
			})
		})
	}
}

// lines are the events of n processes that are forked and exit.
func lines(n int) *bytes.Buffer {
	stream := new(bytes.Buffer)
	enc := json.NewEncoder(stream)
	for n := range n {
		ref := api.Ref{PID: 1000 + n%30000, StartNS: api.U64(n + 2)}
		p := &api.Process{Ref: ref, Session: "aaaaaa", Comm: "pulse", UID: new(0), Creator: &api.Ref{PID: 1, StartNS: 1}, Parent: &api.Ref{PID: 1, StartNS: 1}, Started: new(time.Now())}
		enc.Encode(api.Event{Head: api.Head{Kind: "event"}, Type: "fork", Seq: api.U64(2*n + 1), TimeNS: api.U64(2*n + 1), Time: new(time.Now()), Session: "aaaaaa", Process: p})
		enc.Encode(api.Event{Head: api.Head{Kind: "event"}, Type: "exit", Seq: api.U64(2*n + 2), TimeNS: api.U64(2*n + 2), Time: new(time.Now()), Session: "aaaaaa",
			Process: &api.Process{Ref: ref, Session: "aaaaaa", Comm: "pulse", ExitCode: new(0), Exited: new(time.Now())}})
	}
	return stream
}
