//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/asks"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/orders"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/presence"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/receipts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
)

// linked is what runs.
type linked struct {
	dir       *statedir.Dir
	bus       *bus.Bus
	reader    *receipts.Reader
	publisher *receipts.Publisher
	carrier   *orders.Carrier
	presence  *presence.Presence
	asks      *asks.Asks
	metrics   net.Listener // nil: none
}

// build reads what is kept, and begins to connect.
func build(ctx context.Context, o *link.Options, socket string, log zerolog.Logger) (*linked, error) {
	dir, err := statedir.Open(o.State, "receipt", "state")
	if err != nil {
		return nil, err
	}
	box, err := outbox.Open(dir, outbox.MaxBytes)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) }
	changed := make(chan struct{}, 1)
	l := &linked{
		dir:     dir,
		reader:  &receipts.Reader{Dial: dial, Dir: dir, Box: box, Host: o.Name, Log: log, Changed: changed},
		carrier: &orders.Carrier{Dial: dial, Dir: dir, Box: box, Host: o.Name, Log: log},
		asks:    asks.New(socket),
	}
	l.asks.All = o.Answer
	if err := errors.Join(l.reader.Open(), l.carrier.Open()); err != nil {
		return nil, service.UsageError{Err: err}
	}
	if l.bus, err = bus.Connect(o, version, log); err != nil {
		return nil, service.UsageError{Err: err}
	}
	l.publisher = &receipts.Publisher{Stream: l.bus, Reader: l.reader}
	l.presence = &presence.Presence{Dial: dial, Keys: l.bus, Host: o.Name, Changed: changed, Log: log}
	if o.Metrics != "" {
		if l.metrics, err = service.ListenMetrics(ctx, o.Metrics, log); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// run serves until ctx is done.
func (l *linked) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer l.bus.Close()
	to := func(m *bus.Message) func(*bus.Message) error {
		return func(answer *bus.Message) error { return l.bus.Answer(m, answer) }
	}
	err := errors.Join(
		l.bus.Subscribe(link.CommandSubject(l.reader.Host), func(m *bus.Message) {
			post := func(ctx context.Context) (int, error) { return l.asks.Post(ctx, m.Body, to(m)) }
			l.carrier.Take(ctx, m.Body, post, func(err error) { asks.Refuse(err, to(m)) })
		}),
		l.bus.Subscribe(link.AskSubject(l.reader.Host), func(m *bus.Message) { l.asks.Take(ctx, m.Body, m.Asker(), to(m)) }))
	if err != nil {
		return errors.Join(err, l.dir.Close())
	}
	var all sync.WaitGroup
	all.Go(func() { l.reader.Run(ctx) })
	all.Go(func() { l.publisher.Run(ctx) })
	all.Go(func() { l.carrier.Run(ctx) })
	all.Go(func() { l.presence.Run(ctx) })
	if l.metrics != nil {
		all.Go(func() {
			err = service.ServeMetrics(ctx, l.metrics, l.measure, 5*time.Second)
			stop() // exit: the service manager restarts the whole program
		})
	}
	var gone error
	all.Go(func() {
		select {
		case gone = <-l.bus.Gone():
			stop()
		case <-ctx.Done():
		}
	})
	all.Wait()
	return errors.Join(err, gone, l.dir.Close())
}

// measure writes what the link reports to Prometheus.
func (l *linked) measure(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	items, size := l.reader.Box.Size()
	up := 0
	if l.bus.Up() {
		up = 1
	}
	for _, m := range []struct {
		name, kind, help string
		value            any
	}{
		{"lineage_link_connected", "gauge", "1 while the link is connected to a NATS server.", up},
		{"lineage_link_outbox_receipts", "gauge", "Receipts that wait until the stream has stored them.", items},
		{"lineage_link_outbox_bytes", "gauge", "Bytes of these receipts.", size},
		{"lineage_link_receipts_stored_total", "counter", "Receipts that the stream has stored since the link started.", l.publisher.Stored.Load()},
		{"lineage_link_commands_accepted_total", "counter", "Commands that the daemon accepted.", l.carrier.Accepted.Load()},
		{"lineage_link_commands_refused_total", "counter", "Messages that were refused as commands.", l.carrier.Refused.Load()},
		{"lineage_link_commands_dropped_total", "counter", "Times that messages were dropped because they came too fast.", l.bus.Dropped()},
		{"lineage_link_questions_answered_total", "counter", "Questions that the daemon was asked.", l.asks.Answered.Load()},
		{"lineage_link_questions_refused_total", "counter", "Questions that were refused.", l.asks.Refused.Load()},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}
