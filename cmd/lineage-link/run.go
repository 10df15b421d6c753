//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// linked is what runs.
type linked struct {
	bus      *bus.Bus
	host     *bus.Host
	presence *bus.Presence
	metrics  *service.Metrics // nil: none
}

// build begins to connect.
func build(ctx context.Context, o *service.LinkOptions, socket string, log zerolog.Logger) (*linked, error) {
	b, err := bus.Connect(o, version, log)
	if err != nil {
		return nil, service.UsageError{Err: err}
	}
	l := &linked{bus: b, host: bus.NewHost(socket, log), presence: &bus.Presence{
		Dial:    func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) },
		Store:   b.Store,
		Host:    o.Name,
		Changed: make(chan struct{}, 1),
		Log:     log,
	}}
	l.host.All = o.Answer
	if o.Metrics != "" {
		if l.metrics, err = service.ListenMetrics(ctx, o.Metrics, l.measure, 5*time.Second, log); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// run serves until ctx is done.
func (l *linked) run(ctx context.Context) error {
	defer l.bus.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := l.host.Serve(ctx, l.bus, l.presence.Host); err != nil {
		return err
	}
	parts := []func(context.Context) error{service.Lasting(l.presence.Run), l.bus.Wait}
	if l.metrics != nil {
		parts = append(parts, l.metrics.Serve)
	}
	return service.Together(ctx, parts...)
}

// measure writes what the link reports to Prometheus.
func (l *linked) measure(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	up := 0
	if l.bus.Up() {
		up = 1
	}
	for _, m := range []struct {
		name, kind, help string
		value            any
	}{
		{"lineage_link_connected", "gauge", "1 while the link is connected to a NATS server.", up},
		{"lineage_link_commands_accepted_total", "counter", "Commands that the daemon accepted.", l.host.Accepted.Load()},
		{"lineage_link_commands_refused_total", "counter", "Messages that were refused as commands.",
			l.host.Unsigned.Load()},
		{"lineage_link_commands_dropped_total", "counter",
			"Times that messages were dropped because they came too fast.", l.bus.Dropped()},
		{"lineage_link_questions_answered_total", "counter", "Questions that the daemon was asked.",
			l.host.Answered.Load()},
		{"lineage_link_questions_refused_total", "counter", "Questions that were refused.", l.host.Refused.Load()},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}
