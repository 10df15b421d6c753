//go:build linux

package main

import (
	"context"
	"errors"
	"sync"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/orders"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
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
}

// build reads what is kept, and begins to connect.
func build(o *link.Options, socket string, log zerolog.Logger) (*linked, error) {
	dir, err := statedir.Open(o.State, "receipt", "state")
	if err != nil {
		return nil, err
	}
	box, err := outbox.Open(dir, outbox.MaxBytes)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) }
	l := &linked{
		dir:     dir,
		reader:  &receipts.Reader{Dial: dial, Dir: dir, Box: box, Host: o.Name, Log: log},
		carrier: &orders.Carrier{Dial: dial, Dir: dir, Box: box, Host: o.Name, Log: log},
	}
	if err := errors.Join(l.reader.Open(), l.carrier.Open()); err != nil {
		return nil, service.UsageError{Err: err}
	}
	if l.bus, err = bus.Connect(o, log); err != nil {
		return nil, service.UsageError{Err: err}
	}
	l.publisher = &receipts.Publisher{Stream: l.bus, Reader: l.reader}
	return l, nil
}

// run serves until ctx is done.
func (l *linked) run(ctx context.Context) error {
	defer l.bus.Close()
	err := l.bus.Subscribe(link.CommandSubject(l.reader.Host), func(m *bus.Message) {
		l.carrier.Take(ctx, m.Body, func(a *link.Answer) { l.answer(m, a) })
	})
	if err != nil {
		return errors.Join(err, l.dir.Close())
	}
	var all sync.WaitGroup
	all.Go(func() { l.reader.Run(ctx) })
	all.Go(func() { l.publisher.Run(ctx) })
	all.Go(func() { l.carrier.Run(ctx) })
	all.Wait()
	return l.dir.Close()
}

// answer answers a message. Who asked may be gone, and the receipt is in the stream, too.
func (l *linked) answer(m *bus.Message, a *link.Answer) {
	body, encoding, err := receipts.Encode(a)
	if err == nil {
		err = l.bus.Answer(m, &bus.Message{Body: body, Encoding: encoding})
	}
	if err != nil {
		l.reader.Log.Warn().Err(err).Msg("a command is not answered")
	}
}
